"""What goes wrong in one place is said once, and ends the build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.pins.site import Site

if TYPE_CHECKING:
    from pathlib import Path

CRASH = """
import pathlib
import time

extensions += ["fsdp_demo.warm"]
RUNNING = pathlib.Path(__file__).with_name("running")


def crash(app, document):
    if app.env.docname == "0":
        while not RUNNING.exists():
            time.sleep(0.05)
        raise RuntimeError("it is broken")


def setup(app):
    app.connect("doctree-read", crash)
"""

RUNS_ON = """---
file_format: mystnb
kernelspec:
  name: tiny
---

# A page whose cell runs when another page's reader crashes

```{code-cell} python
:pin: one
import pathlib, time

pathlib.Path(ROOT, "running").touch()
time.sleep(3)
```
"""

LOST = """---
file_format: mystnb
kernelspec:
  name: no-such
---

# A page that can't be executed

It states {fact}`some`, and 17.

:::{torch-quote} torch.api.Strategy
its words
:::

:::{cited-not-measured}
:because: there is no GPU
```{torch-quote} torch.api.Strategy
other words
```
:::
"""


def test_a_crash_in_one_reader_ends_the_others(tmp_path: Path) -> None:
    """The others' cells may run: Sphinx would wait for them and never read what they send."""
    site = Site.copy("right", tmp_path)
    site.add("conf.py", CRASH)
    for name in "01234":
        # The environment keeps the title: what a reader sends is more than a pipe holds.
        text = f"---\norphan: true\n---\n\n# {name * 200_000}\n"
        site.path(f"docs/{name}.md").write_text(text, encoding="utf-8")
    source = RUNS_ON.replace("ROOT", repr(str(site.root)))
    site.path("docs/lessons/1-sums.md").write_text(source, encoding="utf-8")
    outcome = site.build("-j", "2")
    assert outcome.status == 2
    assert "it is broken" in outcome.printed


def test_a_page_that_can_not_be_executed_has_that_one_finding(tmp_path: Path) -> None:
    """What it takes from a run, and from the kernel's torch, can't be there: that is no news."""
    site = Site.copy("right", tmp_path)
    more = (
        'extensions += ["fsdp_demo.prose", "fsdp_demo.citations"]\n'
        'prose_checked = cited_required = ["lessons/1-*"]\n'
    )
    site.add("conf.py", more)
    numbers = '[pages]\n"lessons/1-sums" = ["and 18"]\n'
    site.path("docs/_numbers.toml").write_text(numbers, encoding="utf-8")
    site.path("docs/lessons/1-sums.md").write_text(LOST, encoding="utf-8")
    outcome = site.build()
    assert outcome.status == 1
    (line,) = [line for line in outcome.printed.splitlines() if "WARNING" in line]
    assert line.startswith("docs/lessons/1-sums.md:4: WARNING: The page's kernel doesn't exist.")


def test_a_broken_list_of_numbers_is_one_finding(tmp_path: Path) -> None:
    site = Site.copy("right", tmp_path)
    more = 'extensions += ["fsdp_demo.prose"]\nprose_checked = ["lessons/*"]\n'
    site.add("conf.py", more)
    site.path("docs/_numbers.toml").write_text('everywhere = [\n"a"\nb', encoding="utf-8")
    outcome = site.build("-j", "2")
    assert outcome.status == 1
    (line,) = [line for line in outcome.printed.splitlines() if "WARNING: " in line]
    assert "docs/_numbers.toml:3: WARNING: not TOML that can be read" in line
