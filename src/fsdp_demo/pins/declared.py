"""What a page's cells declare: options, tags, labels, and how wide they are."""

from __future__ import annotations

import difflib
import math
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from fsdp_demo.pins.cells import RAISES, UNPINNED, Cell, Page
from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.lines import DEFAULT_REL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_COLUMNS = 80
"""The most columns of code and printouts: what a page shows without scrolling."""

OPTIONS = frozenset({"pin", "rel", "tags", "mystnb", "load"})
MYSTNB_OPTIONS = frozenset(
    {
        "code_prompt_hide",
        "code_prompt_show",
        "error_lexer",
        "figure",
        "image",
        "markdown_format",
        "merge_streams",
        "number_source_lines",
        "output_stderr",
        "remove_code_outputs",
        "remove_code_source",
        "scroll_outputs",
        "text_lexer",
    }
)
"""What MyST-NB reads from a cell's option ``mystnb``."""
# Not skip-execution: a cell that isn't run is what this site doesn't have.
TAGS = frozenset(
    {
        UNPINNED,
        RAISES,
        "hide-cell",
        "hide-input",
        "hide-output",
        "remove-cell",
        "remove-input",
        "remove-output",
        "remove-stdout",
        "remove-stderr",
        "scroll-output",
        "full-width",
        "margin",
        "popout",
    }
)


def check_declared(page: Page, pins_required: Sequence[str] = ()) -> Iterator[Finding]:
    """Find what is wrong with a page as it is written, whatever its cells printed."""
    for cell in page.cells:
        yield from _check_options(cell)
        yield from _check_tags(cell)
        yield from _check_pin(cell)
        yield from _check_width(cell)
    yield from _check_labels(page.cells)
    required = any(fnmatch(page.docname, pattern) for pattern in pins_required)
    if page.failure is not None:
        return
    if page.cells and all("pin" not in cell.options for cell in page.cells):
        yield Finding(Kind.PAGE_WITHOUT_PIN, 1, advice="Give one of its cells a pin.")
    if required and not page.cells:
        advice = "Add a code cell with a pin; its front matter needs `file_format: mystnb`."
        yield Finding(Kind.PAGE_WITHOUT_CELL, 1, advice=advice)


def tolerance_of(cell: Cell) -> float:
    """Return the cell's relative tolerance, the default where it has none that can be used."""
    rel = _read_rel(cell.options.get("rel"))
    return DEFAULT_REL if rel is None else rel


def _read_rel(value: object) -> float | None:
    """Read the option ``rel``; YAML takes ``1e-3`` for a string, and we take it for a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        rel = float(value)
    except ValueError:
        return None
    # From 1 on nothing of the same sign could differ: a check that can't fail.
    return rel if math.isfinite(rel) and 0 <= rel < 1 else None


def _check_options(cell: Cell) -> Iterator[Finding]:
    for name in cell.options:
        if name not in OPTIONS:
            yield Finding(Kind.UNKNOWN_OPTION, cell.line, f"`{name}`{_suggest(name, OPTIONS)}")
    if "rel" in cell.options and _read_rel(cell.options["rel"]) is None:
        detail = f"`rel: {cell.options['rel']}` is no number from 0 to below 1."
        yield Finding(Kind.BAD_OPTION, cell.line, detail)
    if "rel" in cell.options and "pin" not in cell.options:
        yield Finding(Kind.BAD_OPTION, cell.line, "`rel` without `pin` has nothing to compare.")
    nested = cell.options.get("mystnb", {})
    if not isinstance(nested, dict):
        detail = "`mystnb` takes a mapping, such as `mystnb: {image: {alt: …}}`."
        yield Finding(Kind.BAD_OPTION, cell.line, detail)
        return
    for name in nested:
        if name not in MYSTNB_OPTIONS:
            detail = f"`mystnb: {name}`{_suggest(str(name), MYSTNB_OPTIONS)}"
            yield Finding(Kind.UNKNOWN_OPTION, cell.line, detail)


def _check_tags(cell: Cell) -> Iterator[Finding]:
    for tag in cell.tags:  # that they are a list was checked when the page was read
        if tag not in TAGS:
            yield Finding(Kind.UNKNOWN_TAG, cell.line, f"`{tag}`{_suggest(tag, TAGS)}")


def _check_pin(cell: Cell) -> Iterator[Finding]:
    pinned, unpinned = "pin" in cell.options, UNPINNED in cell.tags
    if pinned and unpinned:
        yield Finding(Kind.TWO_MINDS, cell.line, label=cell.label)
    if RAISES in cell.tags and not pinned:
        yield Finding(Kind.ERROR_UNPINNED, cell.line, advice="Add `:pin: some-label`.")
    elif not pinned and not unpinned:
        advice = "Add `:pin: some-label` or `:tags: [unpinned]`."
        yield Finding(Kind.NO_PIN, cell.line, advice=advice)
    if pinned and cell.label is None:
        yield Finding(Kind.BAD_LABEL, cell.line, f"`{cell.options['pin']}` is not.")


def _check_labels(cells: Iterable[Cell]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for cell in cells:
        if cell.label is not None and first.setdefault(cell.label, cell.line) != cell.line:
            detail = f"The first is in line {first[cell.label]}."
            yield Finding(Kind.DUPLICATE, cell.line, detail, label=cell.label)


def _check_width(cell: Cell) -> Iterator[Finding]:
    for number, line in enumerate(cell.source.splitlines(), start=cell.code_line):
        if len(line) > MOST_COLUMNS:
            yield Finding(Kind.WIDE_CODE, number, f"It has {len(line)}.")
    # An error's message is torch's own and can't be wrapped here: only the text counts.
    widest = max(cell.text.splitlines(), key=len, default="")
    if len(widest) > MOST_COLUMNS:
        detail = f"It has {len(widest)}:\n{widest}"
        yield Finding(Kind.WIDE_OUTPUT, cell.line, detail, label=cell.label)


def _suggest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f": did you mean `{near[0]}`?" if near else ". Known are " + ", ".join(sorted(known))
