"""What a page cites and doesn't measure is marked the same way on each page, or the build fails."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = """\
# All is said

:::{cited-not-measured}
:because: there is no `GPU`
It is fast, [they say](https://example.org).
:::
"""

NOTHING = """\
# Nothing is cited

:::{cited-not-measured}
:nothing:
:::
"""

FAULTY = """\
# All kinds of faults

:::{cited-not-measured}
:because: I say so
Nobody else does.
:::

:::{cited-not-measured}
It is fast, [they say](https://example.org).
:::

:::{admonition} Another title
:class: cited
By hand.
:::

:::{admonition} Cited, not measured
By hand too.
:::

:::{cited-not-measured}
:nothing:
And yet something.
:::
"""

PAGES = {"index": RIGHT, "nothing": NOTHING, "faulty": FAULTY, "none": "# No box\n"}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path, int]:
    """Build the pages once; return the warnings, the HTML folder and the exit status."""
    root = tmp_path_factory.mktemp("site")
    (root / "docs").mkdir()
    for name, text in PAGES.items():
        (root / "docs" / f"{name}.md").write_text(text)
    (root / "conf.py").write_text(
        'extensions = ["myst_nb", "fsdp_demo.citations"]\nnb_execution_mode = "off"\n'
        'suppress_warnings = ["toc.not_included"]\nmyst_enable_extensions = ["colon_fence"]\n'
        'cited_required = ["*"]\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-c", ".", "-W", "--keep-going", "docs", "html"],
        cwd=root,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    warnings = [line for line in run.stderr.splitlines() if "WARNING" in line]
    return warnings, root / "html", run.returncode


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("faulty.md:3", "it cites nothing: quote torch in it, or link to what says it"),
        ("faulty.md:8", "it doesn't say why this wasn't measured: add `:because: …`"),
        ("faulty.md:8", "the page has another `cited-not-measured`: say it in one place"),
        ("faulty.md:12", "write the directive `cited-not-measured` in place of this box"),
        ("faulty.md:17", "write the directive `cited-not-measured` in place of this box"),
        ("faulty.md:21", "with `:nothing:` there is nothing else to say: take the rest out"),
        ("faulty.md:21", "the page has another `cited-not-measured`: say it in one place"),
        ("none.md:1", "the page doesn't say what it cites and doesn't measure: add"),
    ],
)
def test_a_box_that_says_too_little_fails_the_build_at_its_line(
    build: tuple[list[str], Path, int], place: str, message: str
) -> None:
    found = [line for line in build[0] if f"/docs/{place}: WARNING: " in line and message in line]
    assert len(found) == 1, "\n".join(build[0])
    assert found[0].endswith("[citations.cited]")
    assert build[2] == 1


def test_nothing_else_is_found(build: tuple[list[str], Path, int]) -> None:
    assert len(build[0]) == 8


def test_each_box_has_one_title_and_one_way_to_give_the_reason(
    build: tuple[list[str], Path, int],
) -> None:
    box = '<div class="cited admonition">\n<p class="admonition-title">Cited, not measured</p>'
    right = (build[1] / "index.html").read_text()
    assert box in right
    reason = "Not measured here, because there is no <code"
    assert reason in right
    nothing = (build[1] / "nothing.html").read_text()
    assert box in nothing
    assert "<p>Nothing: every statement on this page comes from a run on it" in nothing
