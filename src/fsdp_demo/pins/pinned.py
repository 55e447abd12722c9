"""Whether a page's cells printed what their pins say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.pins.compare import find_drift
from fsdp_demo.pins.declared import tolerance_of
from fsdp_demo.pins.findings import Finding, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.pins.cells import Cell, Page
    from fsdp_demo.pins.pinfile import PinFile


def check_pins(page: Page, pins: PinFile | None, pin_path: str) -> Iterator[Finding]:
    """Compare a page's cells with its pin file; ``pin_path`` is how messages name that file."""
    if pins is not None and page.setting is not None and _other_torch(page, pins):
        detail = f"They are of {pins.taken_on.torch}, and the page runs on {page.setting.torch}."
        line, advice = pins.line_of("torch"), _advise(page.docname, "Review all of them, then")
        yield Finding(Kind.OTHER_TORCH, line, detail, advice, path=pin_path)
    for cell in pinned_cells(page):
        if has_printed(page, cell):
            yield from _check_cell(page, cell, pins)
    if pins is None or page.failure is not None:
        return
    named = {cell.label for cell in page.cells}
    for label in pins.pins:
        if label not in named:
            advice = _advise(f"{page.docname}::{label}", "If the cell is gone for good")
            line = pins.line_of(label)
            yield Finding(Kind.OBSOLETE, line, "", advice, label, path=pin_path)


def pinned_cells(page: Page) -> Iterator[Cell]:
    """Yield the cells that name a pin, of two with one label the first."""
    seen: set[str] = set()
    for cell in page.cells:
        if cell.label is not None and cell.label not in seen:
            seen.add(cell.label)
            yield cell


def has_printed(page: Page, cell: Cell) -> bool:
    """Tell whether the cell ran to its end, so that its output is all there."""
    return cell.count is not None and not cell.failed and cell is not page.timed_out


def pinned_text(page: Page, label: str, pins: PinFile | None) -> str | None:
    """Return the pin that holds for the page's build, or None where there is none."""
    value = pins.pins.get(label) if pins is not None else None
    if value is None or isinstance(value, str):
        return value
    return value.get(page.setting.build) if page.setting is not None else None


def _check_cell(page: Page, cell: Cell, pins: PinFile | None) -> Iterator[Finding]:
    label = cell.label or ""
    advice = _advise(f"{page.docname}::{label}", "Review it, then")
    want = pinned_text(page, label, pins)
    if want is not None:
        drift = find_drift(want, cell.printed, tolerance_of(cell))
        if drift is not None:
            hint = _hint_at_build(page, label, pins)
            yield Finding(Kind.DRIFT, cell.line, drift + "\n", advice + hint, label)
    elif pins is not None and label in pins.pins:
        build = page.setting.build if page.setting is not None else "unknown"
        detail = f"It has {', '.join(pins.pins[label])}, and this is {build}. It printed:\n"
        yield Finding(Kind.MISSING_BUILD, cell.line, detail + cell.printed, advice, label)
    else:
        detail = "It printed:\n" + (cell.printed or "(nothing)")
        yield Finding(Kind.MISSING, cell.line, detail, advice, label)


def _hint_at_build(page: Page, label: str, pins: PinFile | None) -> str:
    """Name the option for an output that depends on the build, where that may be the reason."""
    if pins is None or page.setting is None or not isinstance(pins.pins[label], str):
        return ""
    if page.setting.build == pins.taken_on.build:
        return ""
    return (
        f" (taken on {pins.taken_on.build}, this is {page.setting.build}:"
        " add --by-build if the output rightly depends on it)"
    )


def _other_torch(page: Page, pins: PinFile) -> bool:
    return page.setting is not None and page.setting.torch != pins.taken_on.torch


def _advise(target: str, when: str) -> str:
    return f"{when}: nox -s pins -- --accept {target}"
