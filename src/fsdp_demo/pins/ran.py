"""How a page's run went: errors, time, stderr, cells that never ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.pins.cells import RAISES, Cell, Page
from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.pagelines import find_lines, name_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_run(page: Page, path: str) -> Iterator[Finding]:
    """Find what went wrong while a page's cells ran; ``path`` is how messages name the page."""
    ended = page.timed_out is not None  # a cell that explains why those after it did not run
    for number, cell in enumerate(page.cells):
        rest = len(page.cells) - number - 1
        if cell is page.timed_out:
            yield _describe_timeout(page, cell, path, rest)
        elif cell.failed:
            ended = True
            yield _describe_error(page, cell, path, rest)
        elif cell.count is None and not ended:
            detail = "It is empty, tagged `skip-execution`, or its page is not executed."
            yield Finding(Kind.NOT_RUN, cell.line, detail, label=cell.label)
        elif cell.count is not None and RAISES in cell.tags and cell.error is None:
            yield Finding(Kind.NOT_RAISED, cell.line, label=cell.label)
        if cell.stderr:
            yield Finding(Kind.STDERR, cell.line, "It says:\n" + cell.stderr, label=cell.label)
    if page.stopped is not None and not ended:
        # No cell explains it, and yet it must not pass.
        yield Finding(Kind.STOPPED, 1, f"By {page.stopped}.")


def _describe_timeout(page: Page, cell: Cell, path: str, rest: int) -> Finding:
    """Describe a cell that was interrupted, with the page's lines where it was."""
    detail = f"It may take {page.timeout_s} s (`nb_execution_timeout`)."
    if cell.error is not None and (at := find_lines(page, path, cell.error.traceback)):
        detail += " It was at " + ", then ".join(at) + "."
    return Finding(Kind.TIMEOUT, cell.line, detail + _count_rest(rest), label=cell.label)


def _describe_error(page: Page, cell: Cell, path: str, rest: int) -> Finding:
    """Describe an error with its own text and the page's lines that it went through."""
    assert cell.error is not None  # noqa: S101 - the caller has looked
    error = cell.error
    shown = error.summary
    if error.renders_itself:
        shown = name_lines(page, path, error.traceback)
    lines = shown.rstrip().splitlines()
    at = find_lines(page, path, error.traceback)
    if at and shown == error.summary:
        lines.append("at " + ", then ".join(at))
    if rest:
        lines.append(_count_rest(rest).strip())
    advice = f"Is it the cell's lesson? Then tag it `{RAISES}` and pin it."
    return Finding(Kind.RAISED, cell.line, "\n".join(lines) + "\n", advice, cell.label)


def _count_rest(rest: int) -> str:
    if not rest:
        return ""
    return f" The {rest} cell{'s' if rest > 1 else ''} after it did not run."
