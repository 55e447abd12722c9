"""Each fault is found in a real build, with file, line and message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pins.site import Outcome, Site

if TYPE_CHECKING:
    from pathlib import Path

Faults = tuple[Site, Outcome]

FOUND = {
    "a changed number": (
        "docs/lessons/drift.md:11: WARNING: count: The cell printed something else than its pin.",
        """\
    --- pin
    +++ this run
    @@ -1,3 +1,3 @@
     gathers 3
     loss 0.3
    -units 5
    +units 4
    Review it, then: nox -s pins -- --accept lessons/drift::count [pins.drift]""",
    ),
    "a missing pin": (
        "docs/lessons/missing.md:14: WARNING: away: The cell's label has no pin.",
        """\
    It printed:
    away
    Review it, then: nox -s pins -- --accept lessons/missing::away [pins.missing]""",
    ),
    "a page without a pin file": (
        "docs/lessons/no-file.md:9: WARNING: alone: The cell's label has no pin.",
        "    alone\n",
    ),
    "an obsolete pin": (
        "docs/_pins/lessons/obsolete.toml:10: WARNING: left-over: No cell of the page names",
        "nox -s pins -- --accept lessons/obsolete::left-over [pins.obsolete]",
    ),
    "an obsolete pin file": (
        "docs/_pins/lessons/gone.toml:1: WARNING: The pin file belongs to no page.",
        "nox -s pins -- --accept lessons/gone [pins.obsolete-file]",
    ),
    "a duplicate label": (
        "docs/lessons/declared.md:14: WARNING: twice: Another cell of the page has the same label.",
        "The first is in line 9. [pins.duplicate]",
    ),
    "a misspelt tag": (
        "docs/lessons/declared.md:19: WARNING: The cell has a tag that nothing reads.",
        "`unpined`: did you mean `unpinned`? [pins.unknown-tag]",
    ),
    "a misspelt tag beside a pin": (
        "docs/lessons/declared.md:24: WARNING: The cell has a tag that nothing reads.",
        "`hide-inputs`: did you mean `hide-input`?",
    ),
    "a misspelt option": (
        "docs/lessons/declared.md:30: WARNING: The cell has an option that nothing reads.",
        "`pinn`: did you mean `pin`? [pins.unknown-option]",
    ),
    "neither pin nor unpinned": (
        "docs/lessons/declared.md:36: WARNING: The cell has neither a pin nor the tag `unpinned`.",
        "Add `:pin: some-label` or `:tags: [unpinned]`. [pins.no-pin]",
    ),
    "a label that is no slug": (
        "docs/lessons/declared.md:40: WARNING: A label is lower-case words",
        "`Not a slug` is not. [pins.bad-label]",
    ),
    "a pin and unpinned": (
        "docs/lessons/declared.md:45: WARNING: two-minds: The cell has a pin and the tag",
        "[pins.two-minds]",
    ),
    "a tolerance under which nothing could differ": (
        "docs/lessons/declared.md:51: WARNING: The cell has an option with a value that can't be",
        "`rel: 2` is no number from 0 to below 1. [pins.bad-option]",
    ),
    "a misspelt option of MyST-NB's": (
        "docs/lessons/declared.md:57: WARNING: The cell has an option that nothing reads.",
        "`mystnb: imag`: did you mean `image`?",
    ),
    "an expected error that is not pinned": (
        "docs/lessons/declared.md:63: WARNING: A cell tagged `raises-exception` needs a pin",
        "[pins.error-unpinned]",
    ),
    "tags that are no list": (
        "docs/lessons/text-tags.md:9: WARNING: The cell has an option with a value that can't",
        "'hide-input' is not of type 'array': write `:tags: [some-tag]`. [pins.bad-option]",
    ),
    "options that are no YAML": (
        "docs/lessons/options.md:14: WARNING: The cell has an option with a value that can't be",
        "MyST-NB says: Invalid options format (bad YAML). [pins.bad-option]",
    ),
    "a cell that raises, with the lines that the error went through": (
        "docs/lessons/raises.md:15: WARNING: divided: The cell raised an error.",
        """\
    ZeroDivisionError: division by zero
    at docs/lessons/raises.md:19, then docs/lessons/raises.md:12
    The 1 cell after it did not run.
""",
    ),
    "a cell that prints to stderr, hidden from the page": (
        "docs/lessons/stderr.md:9: WARNING: warned: The cell printed to stderr.",
        "    careful now [pins.stderr]",
    ),
    "an expected error that doesn't come": (
        "docs/lessons/no-error.md:9: WARNING: nothing: The cell is tagged `raises-exception` and",
        "raised nothing. [pins.not-raised]",
    ),
    "an expected error of another type": (
        "docs/lessons/no-error.md:15: WARNING: another-type: The cell printed something else",
        "    -ValueError: it is broken\n    +TypeError: it is broken\n",
    ),
    "an expected error with another message": (
        "docs/lessons/no-error.md:21: WARNING: another-message: The cell printed something else",
        "    -ValueError: it is broken\n    +ValueError: it is fine\n",
    ),
    "an unrun python block": (
        "docs/lessons/not-run.md:9: WARNING: Nothing runs this Python block, and no reason is",
        "Make it a code cell, or write `% not run: why` in the line above it. [pins.unrun-block]",
    ),
    "an unrun python block with a caption, inside a directive": (
        "docs/lessons/not-run.md:19: WARNING: Nothing runs this Python block",
        "[pins.unrun-block]",
    ),
    "a reason that says nothing": (
        "docs/lessons/not-run.md:31: WARNING: Nothing runs this Python block",
        "[pins.unrun-block]",
    ),
    "a nested code-cell": (
        "docs/lessons/not-run.md:14: WARNING: MyST-NB doesn't run this code cell.",
        "Move it out of the directive or list that it is in",
    ),
    "a code-cell in a list": (
        "docs/lessons/not-run.md:25: WARNING: MyST-NB doesn't run this code cell.",
        "[pins.nested-cell]",
    ),
    "a cell that is skipped": (
        "docs/lessons/not-run.md:35: WARNING: skipped: The cell did not run.",
        "tagged `skip-execution`",
    ),
    "a page that is not executed": (
        "docs/lessons/off.md:11: WARNING: one: The cell did not run.",
        "or its page is not executed. [pins.not-run]",
    ),
    "a page with no pin": (
        "docs/lessons/no-pin.md:1: WARNING: The page has code cells and no pin.",
        "[pins.page-without-pin]",
    ),
    "a lesson with no cell": (
        "docs/lessons/no-cell.md:1: WARNING: The page must have a pinned code cell and has none.",
        "[pins.page-without-cell]",
    ),
    "a pin taken on another torch version": (
        "docs/_pins/lessons/other-torch.toml:2: WARNING: The page's pins were taken on another",
        "They are of 2.1.0, and the page runs on 2.2.2.",
    ),
    "a pin without a value for this build": (
        "docs/lessons/other-build.md:9: WARNING: one: The pin has no value for this build",
        "It has cpu, and this is cu121.",
    ),
    "a broken pin file": (
        "docs/_pins/lessons/broken.toml:9: WARNING: The pin file can't be read.",
        "(at end of document)\n    Mend it, or take it as it was committed: git restore docs/_pins",
    ),
    "a pin file with both sides of a merge": (
        "docs/_pins/lessons/merged.toml:7: WARNING: The pin file can't be read.",
        "A merge left both sides in it: keep one of them.\n    Mend it, or take it as it was comm",
    ),
    "a front matter that is no YAML": (
        "docs/lessons/front-matter.md:4: WARNING: The page's front matter can't be read.",
        "YAML says: expected ',' or ']', but got '<stream end>'. [pins.front-matter]",
    ),
    "a front matter without an end": (
        "docs/lessons/open-front-matter.md:1: WARNING: The page's front matter can't be read.",
        "End it with a line `---`. [pins.front-matter]",
    ),
    "a page of cells that doesn't say it is one": (
        "docs/lessons/no-format.md:1: WARNING: The page's front matter can't be read.",
        "A page of cells needs `file_format: mystnb` in it. [pins.front-matter]",
    ),
    "a fence that nothing closes": (
        "docs/lessons/open-fence.md:9: WARNING: Nothing closes the fence that opens here.",
        "Line 13 opens another.\n    Close it with `` ``` ``; around another fence it needs",
    ),
    "a cell that is no Python": (
        "docs/lessons/syntax.md:9: WARNING: one: The cell raised an error.",
        "    SyntaxError: invalid syntax\n    at docs/lessons/syntax.md:11\n",
    ),
    "a very long printout, of which the report has both ends": (
        "docs/lessons/long.md:9: WARNING: one: The cell's label has no pin.",
        "    57\n    … 923 lines are left out here: `nox -s pins` shows them.\n    981\n",
    ),
    "an unknown kernel": (
        "docs/lessons/unknown-kernel.md:4: WARNING: The page's kernel doesn't exist.",
        "`torch-9` is not one of `python3`, `tiny`. `nox -s docs` makes the kernels.",
    ),
    "a kernel that doesn't say what it runs on": (
        "docs/lessons/mute-kernel.md:4: WARNING: The kernel doesn't say what torch it runs on.",
        "`python3`",
    ),
    "a kernel that dies": (
        "docs/lessons/dies.md:14: WARNING: The page could not be executed.",
        "The kernel died: memory, or a cell that ends its own process? [pins.not-executed]",
    ),
    "a cell that runs out of time": (
        "docs/lessons/slow.md:11: WARNING: endless: The cell ran out of time.",
        "It may take 1 s (`nb_execution_timeout`). It was at docs/lessons/slow.md:15. The 1 cell",
    ),
    "a page whose front matter chooses another renderer": (
        "docs/lessons/other-renderer.md:4: WARNING: The page could not be executed.",
        "Its front matter sets `render_plugin`: no pin would be compared.",
    ),
    "a picture from a cell without `alt`": (
        "docs/lessons/mute-pictures.md:31: WARNING: The picture has no text alternative.",
        "It is an image without `alt`.\n    Show a figure",
    ),
    "an SVG that becomes a file, where no reader of the page finds its title": (
        "docs/lessons/mute-pictures.md:36: WARNING: The picture has no text alternative.",
        "It is an image without `alt`.",
    ),
    "an SVG without a title": (
        "docs/lessons/mute-pictures.md:41: WARNING: The picture has no text alternative.",
        "It is <svg> without a name.",
    ),
    "an HTML image with an empty alt": (
        "docs/lessons/mute-pictures.md:46: WARNING: The picture has no text alternative.",
        "It is <img> without a name.",
    ),
    "an SVG from a cell that says it is decoration": (
        "docs/lessons/mute-pictures.md:51: WARNING: The picture has no text alternative.",
        "It is <svg> without a name.",
    ),
    "a Markdown image without a text": (
        "docs/lessons/mute-pictures.md:56: WARNING: The picture has no text alternative.",
        "Write `![what it shows](…)`",
    ),
    "a figure without `alt`": (
        "docs/lessons/mute-pictures.md:58: WARNING: The picture has no text alternative.",
        "It is an image without `alt`.",
    ),
    "raw HTML with a mute SVG": (
        "docs/lessons/mute-pictures.md:62: WARNING: The picture has no text alternative.",
        "It is <svg> without a name.",
    ),
    "a line of code over 80 columns": (
        "docs/lessons/wide.md:12: WARNING: A line of code is over 80 columns.",
        "It has 88. [pins.wide-code]",
    ),
    "a printed line of over 80 columns": (
        "docs/lessons/wide.md:15: WARNING: wide: The cell printed a line of over 80 columns.",
        "It has 82:",
    ),
}


@pytest.mark.parametrize("fault", FOUND)
def test_fault_is_found(faults: Faults, fault: str) -> None:
    """The build names the file, the line, what is wrong and what to do."""
    start, text = FOUND[fault]
    assert text in faults[1].finding(start)


def test_build_fails_and_lists_every_finding_once(faults: Faults) -> None:
    """Nothing else is reported: MyST-NB's own warnings of the same faults are hushed."""
    _, outcome = faults
    assert outcome.status == 1
    lines = [line for line in outcome.printed.splitlines() if ": WARNING: " in line]
    found = [line for line in lines if "[myst-nb.lexer]" not in line]
    also = {
        "docs/lessons/declared.md:19: WARNING: The cell has neither",
        "docs/lessons/not-run.md:35: WARNING: The cell has a tag",
    }
    starts = {start for start, _ in FOUND.values()} | also
    unforeseen = [line for line in found if not line.startswith(tuple(starts))]
    assert unforeseen == []
    assert len(found) == len(starts)


def test_no_traceback_for_bad_input(faults: Faults) -> None:
    """Sphinx does not report a crash of its own."""
    assert "Sphinx parallel build error" not in faults[1].printed
    assert "The full traceback has been saved" not in faults[1].printed


def test_a_page_in_another_encoding_is_named(tmp_path: Path) -> None:
    """Sphinx would crash, and say neither page nor line."""
    site = Site.copy("right", tmp_path)
    page = site.path("docs/lessons/1-sums.md")
    page.write_bytes(page.read_bytes() + "\nCafé\n".encode("latin-1"))
    line = page.read_bytes().count(b"\n")
    outcome = site.build("-j", "2")
    assert outcome.status == 1
    message = f"docs/lessons/1-sums.md:{line}: The page is not UTF-8: save it as UTF-8."
    assert outcome.printed.splitlines() == [message]


def test_second_build_reads_nothing_and_finds_the_same(faults: Faults) -> None:
    """What isn't read again keeps its findings."""
    site, first = faults
    second = site.build("-j", "2")
    assert second.status == 1
    assert _warnings(second) == [line for line in _warnings(first) if "myst-nb.lexer" not in line]


def test_pins_shows_what_can_be_accepted_and_what_stands_in_the_way(faults: Faults) -> None:
    site, _ = faults
    shown = site.pins()
    assert shown.status == 1
    assert "    -units 5\n    +units 4\n" in shown.finding("docs/lessons/drift.md:11: count:")
    assert shown.finding("docs/lessons/missing.md:14: away:")
    assert shown.finding("docs/_pins/lessons/obsolete.toml:10: left-over:")
    assert shown.finding("docs/_pins/lessons/gone.toml:1:")
    assert shown.finding("docs/_pins/lessons/other-torch.toml:2:")
    assert shown.finding("docs/_pins/lessons/broken.toml:9:")
    assert shown.finding("docs/lessons/raises.md:15: divided:")
    assert shown.finding("docs/lessons/slow.md:11: endless:")
    assert shown.finding("docs/lessons/unknown-kernel.md: The page's kernel")
    assert shown.printed.splitlines()[-1].endswith("nox -s pins -- --accept [page[::label]]")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("lessons/raises::divided", "docs/lessons/raises.md:15: divided: The cell raised"),
        ("lessons/raises::never", "docs/lessons/raises.md:22: never did not run to its end."),
        ("lessons/raises", "docs/lessons/raises.md:15: divided: The cell raised"),
        ("lessons/slow::endless", "docs/lessons/slow.md:11: endless: The cell ran out of time."),
        ("lessons/no-error::nothing", "docs/lessons/no-error.md:9: nothing: The cell is tagged"),
        ("lessons/declared::twice", "docs/lessons/declared.md:14: twice: Another cell"),
        ("lessons/dies", "docs/lessons/dies.md: The page could not be executed."),
        ("lessons/broken", "docs/_pins/lessons/broken.toml:9: Expected"),
        ("lessons/broken::one", "docs/_pins/lessons/broken.toml:9: Expected"),
        ("lessons/mute-kernel", "docs/lessons/mute-kernel.md: its kernel doesn't say"),
        ("lessons/other-torch::one", "docs/_pins/lessons/other-torch.toml was taken on torch"),
        ("lessons/gone::one", "lessons/gone is gone: accept the page as a whole"),
        ("lessons/drfit::count", "lessons/drfit: no such page: did you mean lessons/drift"),
        ("lessons/drift::cuont", "lessons/drift::cuont: no such label on the page: did you mean"),
    ],
)
def test_accept_refuses_in_one_line(faults: Faults, target: str, reason: str) -> None:
    """What failed, can't be read or doesn't exist is not accepted, and nothing is written."""
    site, _ = faults
    before = {
        path: path.read_bytes() for path in site.path("docs/_pins").rglob("*") if path.is_file()
    }
    refused = site.pins("--accept", target, "lessons/drift")
    assert refused.status == 2
    assert refused.printed.startswith(reason)
    assert len(refused.printed.splitlines()) == 1
    assert before == {path: path.read_bytes() for path in before}


def _warnings(outcome: Outcome) -> list[str]:
    return [line for line in outcome.printed.splitlines() if "[pins." in line or ".md:" in line]
