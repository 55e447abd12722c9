"""Find the programs of a lesson that nothing compares with the plain model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fsdp_demo.comparisons.calls import find_calls
from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.pagelines import find_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.pins.cells import Cell, Page

_REASON = re.compile(r"%\s*not compared: *\S")
_ADVICE = (
    "Run it by `hold_to_plain`, in a cell of this page,"
    " or write `% not compared: why` in the line above the cell."
)


def check_page(page: Page, source: str) -> Iterator[Finding]:
    """Find each call of FSDP that no comparison of the page has run.

    Args:
        page: The page's executed cells.
        source: The page's text.

    """
    comparisons = [(cell, one) for cell in page.cells for one in cell.comparisons]
    if not comparisons:
        advice = "Add a cell that calls `fsdp_demo.equality.hold_to_plain`."
        yield Finding(Kind.NO_COMPARISON, 1, advice=advice)
    names = set()
    for cell, comparison in comparisons:
        if comparison["program"] in names:
            detail = f"`{comparison['program']}`"
            yield Finding(Kind.COMPARED_TWICE, cell.line, detail, label=cell.label)
        names.add(comparison["program"])
    ran = {line for _, comparison in comparisons for line in _list_lines(page, comparison["calls"])}
    lines = source.splitlines()
    for call in find_calls(page):
        if ran.isdisjoint(range(call.first_line, call.last_line + 1)) and not _is_excused(
            call.cell, lines
        ):
            detail = "It hands the class on: call it in a function." if call.handed_on else ""
            yield Finding(Kind.NOT_COMPARED, call.first_line, detail, _ADVICE)


def _list_lines(page: Page, calls: list[tuple[str, int]]) -> Iterator[int]:
    """Yield the page's lines of the calls that a comparison made, given as Python names them."""
    frames = "\n".join(f'File "{file}", line {line}' for file, line in calls)
    for place in find_lines(page, "page", frames):
        yield int(place.rpartition(":")[2])


def _is_excused(cell: Cell, lines: list[str]) -> bool:
    """Tell whether the page says right above a cell why nothing compares what it runs."""
    above = reversed(lines[: cell.line - 1])
    return bool(_REASON.match(next((line.strip() for line in above if line.strip()), "")))
