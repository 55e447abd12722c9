"""A lesson's cells run as a plain script, and print there what they print on the page."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools.bench.processes import ROOT, BenchFault, run_timed
from tools.bench.scripts import find_different, make_script, split_output, write_scripts

if TYPE_CHECKING:
    from pathlib import Path

LESSONS = ROOT / "docs" / "lessons"

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: tiny
---

# A page

```{code-cell} python
:pin: setting
from fsdp_demo import describe_setting, fact, spawn

WORLD = 2
SCALE = 10
BASE = SCALE + 1
WORLD
```

Words.

```{code-cell} python
:tags: [unpinned]
def work(rank, world):
    return rank * BASE
```

```{code-cell} python
:pin: run
values = spawn(work, WORLD)
print(values)
fact("sum", sum(values));
```

```{code-cell} python
:pin: file
%%writefile note.txt
one
  two
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "1-page.md"
    file.write_text(PAGE)
    return file


def test_what_ranks_need_is_on_top_and_the_rest_is_guarded(page: Path) -> None:
    top, _, main = make_script(page).partition("if __name__ == '__main__':\n")
    assert "from plain_spawn import display, fact, show_last, spawn" in top
    assert "from fsdp_demo import describe_setting\n" in top  # the rest comes from plain_spawn
    assert "SCALE = 10\nBASE = SCALE + 1\n" in top  # `work` reads it, and it reads that
    assert "def work(rank, world):" in top
    assert "WORLD = 2" in main  # no rank needs it
    assert "values = spawn(work, WORLD)" in main


def test_a_last_value_is_shown_unless_a_semicolon_hides_it(page: Path) -> None:
    script = make_script(page)
    assert "show_last(WORLD)" in script
    assert "show_last(fact" not in script


def test_a_cell_that_writes_a_file_writes_it(page: Path, tmp_path: Path) -> None:
    """With its own text, and the words that IPython prints."""
    (script,) = write_scripts([page], tmp_path / "scripts")
    stub = "spawn = lambda work, world: [work(rank, world) for rank in range(world)]\n"
    stub += "fact = lambda name, value: print(f'fact {name}: {value}')\n"
    stub += "show_last = display = print\n"
    (script.parent / "plain_spawn.py").write_text(stub)
    run = subprocess.run(
        [sys.executable, script.name],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert split_output(run.stdout) == {
        "setting": "2\n",
        "run": "[0, 11]\nfact sum: 11\n",
        "file": "Writing note.txt\n",
    }
    assert (script.parent / "note.txt").read_text() == "one\n  two\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("values = spawn", "values = = spawn", "1-page.md, the cell that begins 'values = ="),
        ("def work", "def work(rank): ...\ndef work", "1-page.md defines work twice"),
        ("{code-cell}", "{note}", "1-page.md has no code cell"),
    ],
)
def test_a_page_that_is_no_script_is_refused(page: Path, old: str, new: str, reason: str) -> None:
    page.write_text(PAGE.replace(old, new))
    with pytest.raises(BenchFault, match=reason):
        make_script(page)


def test_every_lesson_makes_a_script() -> None:
    pages = sorted(LESSONS.glob("*.md"))
    assert len(pages) >= 6
    for lesson in pages:
        compile(make_script(lesson), lesson.name, "exec")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["3-collectives", "6-without-a-gpu"])
def test_a_lesson_prints_the_same_under_mp_spawn(
    name: str, ranks_python: str, tmp_path: Path
) -> None:
    """Under torch's own launcher, to the last character of every pin."""
    page = LESSONS / f"{name}.md"
    (script,) = write_scripts([page], tmp_path)
    run = run_timed([ranks_python, script.name], timeout_s=300, folder=tmp_path)
    assert find_different(page, run.stdout) == []
    assert len(split_output(run.stdout)) > 3


def test_another_printout_is_found(tmp_path: Path) -> None:
    """A character, a cell that is missing, and one that no pin knows; not a check of the site."""
    page = tmp_path / "docs" / "lessons" / "1-page.md"
    pins = tmp_path / "docs" / "_pins" / "lessons" / "1-page.toml"
    pins.parent.mkdir(parents=True)
    pins.write_text(
        "[pins]\ncheck = '-'\none = 'a b'\ntwo = 'c'\nbuild.cpu = 'x'\nbuild.cu121 = 'y'\n"
    )
    page.parent.mkdir()
    cells = "".join(
        f"```{{code-cell}} python\n:pin: {label}\n{code}\n```\n\n"
        for label, code in [
            *((label, "print()") for label in ("one", "two", "build")),
            ("check", "from fsdp_demo.equality import hold_to_plain"),
        ]
    )
    page.write_text(f"---\nfile_format: mystnb\n---\n\n# A page\n\n{cells}")
    assert find_different(page, "%% one\na b\n%% two\nc\n%% build\ny\n") == []
    assert find_different(page, "%% one\na  b\n%% build\nz\n%% new\n") == [
        *("new", "one", "two", "build"),
    ]
