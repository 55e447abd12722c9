"""A real page's sentences take their numbers from its run, or the build says where they don't."""

import json
import os
import subprocess
import sys

import pytest

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: tiny
---

# Three of them

```{code-cell} python
from fsdp_demo.facts import fact
fact("gathers", 3)
fact("size", 1440)
fact("share", "33 %")
fact("again", 1)
fact("again", 2)
```

A step gathers {fact-word}`gathers` times, in figures {fact}`gathers`, a share of {fact}`share`.
It sends {fact-word}`size` numbers, and `4` is code, and rank 0 is a name.

This sentence says four.

- a list item
  that says 17

Facts: {fact}`gathrs`, {fact}`again`.
"""

NUMBERS = """\
everywhere = ["rank #", "lesson #"]

[pages]
index = [
  "Three of them",
  "never said 5",
]
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, int]:
    """Build the page once; return what Sphinx said, the HTML and the exit status."""
    root = tmp_path_factory.mktemp("site")
    kernel = root / "jupyter" / "kernels" / "tiny"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        json.dumps(
            {
                "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "tiny",
                "language": "python",
                "metadata": {"fsdp_demo": {"torch": "2.2.2", "build": "cpu"}},
            }
        )
    )
    docs = root / "docs"
    (docs / "_pins").mkdir(parents=True)
    (docs / "index.md").write_text(PAGE)
    (docs / "_numbers.toml").write_text(NUMBERS)
    (root / "conf.py").write_text(
        'extensions = ["myst_nb", "fsdp_demo.pins", "fsdp_demo.prose"]\n'
        'nb_render_plugin = "pins"\nnb_execution_mode = "force"\nprose_checked = ["index"]\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-c", ".", "-W", "--keep-going", "docs", "html"],
        cwd=root,
        env=os.environ | {"JUPYTER_PATH": str(root / "jupyter"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return run.stderr, (root / "html" / "index.html").read_text(), run.returncode


def warnings_of(build: tuple[str, str, int]) -> list[str]:
    return [line for line in build[0].splitlines() if "[prose." in line]


def test_a_sentence_shows_its_fact_as_word_and_as_figure(build: tuple[str, str, int]) -> None:
    assert '<span class="fact">three</span> times' in build[1]
    assert 'in figures <span class="fact">3</span>' in build[1]
    assert '<span class="fact">33 %</span>' in build[1]
    assert '<span class="fact">1,440</span> numbers' in build[1]


def test_a_number_from_no_run_fails_the_build_at_its_line(build: tuple[str, str, int]) -> None:
    assert build[2] == 1
    expected = ("docs/index.md:21: WARNING: 'four'", "docs/index.md:23: WARNING: '17'")
    numbers = [line for line in warnings_of(build) if "[prose.number]" in line]
    assert len(numbers) == len(expected)
    for line, start in zip(numbers, expected, strict=True):
        assert start in line
        assert "comes from no run: name it in a cell with fact(), or allow the phrase" in line


def test_an_unknown_fact_is_named_with_the_nearest(build: tuple[str, str, int]) -> None:
    (line,) = [line for line in warnings_of(build) if "gathrs" in line]
    assert "docs/index.md:26: WARNING: no cell of this page names a fact 'gathrs'" in line
    assert "did you mean 'gathers'?" in line


def test_a_fact_named_twice_is_refused(build: tuple[str, str, int]) -> None:
    assert any("name the fact 'again' twice" in line for line in warnings_of(build))


def test_an_allowed_phrase_that_nobody_says_is_reported_in_its_file(
    build: tuple[str, str, int],
) -> None:
    unused = [line for line in warnings_of(build) if "[prose.allowed]" in line]
    assert len(unused) == 2
    assert "_numbers.toml:1: WARNING: the allowed phrase 'lesson #'" in unused[0]
    assert "_numbers.toml:6: WARNING: the allowed phrase 'never said 5'" in unused[1]


def test_a_fact_shows_nothing_where_it_is_named(build: tuple[str, str, int]) -> None:
    assert "fact gathers: 3" not in build[1]
