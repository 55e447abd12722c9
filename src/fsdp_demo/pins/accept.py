"""Work out what accepting changes; nothing is written here.

What the last build printed replaces the pins that differ from it.  A pin that still holds stays as
it is written, with its ``...``.  Whatever can't be accepted is refused, all of it, before anything
is written.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsdp_demo.pins.compare import keep_allowed
from fsdp_demo.pins.declared import tolerance_of
from fsdp_demo.pins.edit import edit_pin_file, new_pin_file
from fsdp_demo.pins.files import show_path
from fsdp_demo.pins.findings import BLOCKING
from fsdp_demo.pins.pinfile import BrokenPinFileError, PinFile, read_pin_file
from fsdp_demo.pins.pinned import has_printed, pinned_cells, pinned_text
from fsdp_demo.pins.record import find_source
from fsdp_demo.pins.review import docname_of, find_obsolete_files, pin_path_of, review_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fsdp_demo.pins.cells import Cell, Page
    from fsdp_demo.pins.edit import Value
    from fsdp_demo.pins.record import Record

_SEPARATOR = "::"


class RefusedError(Exception):
    """An accept that can't be done: one line for each reason."""


@dataclass(frozen=True, slots=True)
class Change:
    """A pin file's new text."""

    path: Path
    text: str | None
    """None: the file is removed, its page is gone."""
    labels: tuple[str, ...]
    """The labels that change, with ``-`` before one that is removed."""


def plan_accept(
    records: Mapping[str, Record], pins_dir: Path, targets: Sequence[str], *, by_build: bool = False
) -> list[Change]:
    """Work out the changes that accept the targets, or all pages where there is no target.

    Args:
        records: What the last build printed, by page.
        pins_dir: The folder of the pin files.
        targets: ``page`` or ``page::label``, with the page as ``lessons/1-x`` or as the path of
            its source.
        by_build: Store each value as the one of its page's build.

    Raises:
        RefusedError: One of them can't be accepted.
    """
    gone = {docname_of(path, pins_dir): path for path in find_obsolete_files(pins_dir, records)}
    wanted = _read_targets(records, pins_dir, targets, gone)
    changes, reasons = [], []
    for docname, labels in wanted.items():
        if docname in gone:
            if source := find_source(records, docname):
                reasons.append(f"{show_path(source)} was not in the last build: build first.")
            changes.append(Change(gone[docname], None, ()))
            continue
        try:
            changes.append(_plan_page(records[docname], pins_dir, labels, by_build=by_build))
        except (RefusedError, BrokenPinFileError) as error:
            reasons.append(_explain(error, pin_path_of(docname, pins_dir)))
    if reasons:
        raise RefusedError("\n".join(reasons))
    return [change for change in changes if change.text is None or change.labels]


def _explain(error: RefusedError | BrokenPinFileError, pin_path: Path) -> str:
    if isinstance(error, BrokenPinFileError):
        return f"{show_path(pin_path)}:{error.line}: {error}"
    return str(error)


def _read_targets(
    records: Mapping[str, Record], pins_dir: Path, targets: Sequence[str], gone: Mapping[str, Path]
) -> dict[str, list[str] | None]:
    """Read targets to labels by page; None stands for the whole page."""
    wanted: dict[str, list[str] | None] = {}
    for target in targets or [*records, *gone]:
        name, separator, label = target.partition(_SEPARATOR)
        by_path = {show_path(record.path): docname for docname, record in records.items()}
        docname = by_path.get(name, name)
        if docname not in records and docname not in gone:
            raise RefusedError(f"{name}: no such page{_suggest(name, [*records, *gone])}")
        if not separator:
            wanted[docname] = None
            continue
        if docname in gone:
            raise RefusedError(f"{docname} is gone: accept the page as a whole, without a label.")
        known = _labels_of(records[docname], pin_path_of(docname, pins_dir))
        if label not in known:
            raise RefusedError(f"{target}: no such label on the page{_suggest(label, known)}")
        labels = wanted.setdefault(docname, [])
        if labels is not None:
            labels.append(label)
    return wanted


def _labels_of(record: Record, pin_path: Path) -> list[str]:
    pins = _read_pins(pin_path)
    on_page = [cell.label or "" for cell in pinned_cells(record.page)]
    return [*on_page, *(label for label in (pins.pins if pins else ()) if label not in on_page)]


def _read_pins(pin_path: Path) -> PinFile | None:
    try:
        return read_pin_file(pin_path)
    except BrokenPinFileError as error:
        raise RefusedError(_explain(error, pin_path)) from None


def _plan_page(
    record: Record, pins_dir: Path, labels: Sequence[str] | None, *, by_build: bool
) -> Change:
    """Work out a page's new pin file; ``labels`` None accepts the page as a whole."""
    page, docname = record.page, record.page.docname
    pin_path = pin_path_of(docname, pins_dir)
    if not page.cells and page.failure is None:
        if pin_path.exists():  # a broken front matter must not cost a page its pins
            raise RefusedError(
                f"{show_path(record.path)} has no code cell: if it is to have none, remove"
                f" {show_path(pin_path)} by hand."
            )
        return Change(pin_path, "", ())
    if record.stale:
        raise RefusedError(f"{show_path(record.path)} was changed since it was built: build first.")
    pins = read_pin_file(pin_path)
    _refuse_blocked(record, pin_path, labels)
    if page.setting is None:
        raise RefusedError(f"{show_path(record.path)}: its kernel doesn't say what torch it runs.")
    other_torch = pins is not None and pins.taken_on.torch != page.setting.torch
    if labels is not None and other_torch:
        raise RefusedError(
            f"{show_path(pin_path)} was taken on torch {pins.taken_on.torch if pins else ''}, the"
            f" build ran on {page.setting.torch}: accept the whole page, {docname}"
        )
    cells = {cell.label or "": cell for cell in pinned_cells(page)}
    values = {
        label: value
        for label, cell in cells.items()
        if labels is None or label in labels
        if (value := _new_value(page, cell, pins, by_build=by_build)) is not None
    }
    obsolete = [label for label in (pins.pins if pins else ()) if label not in cells]
    removed = [label for label in obsolete if labels is None or label in labels]
    text = pins.text if pins is not None else new_pin_file(docname, page.setting)
    taken_on = page.setting if labels is None and (values or other_torch) else None
    changed = (*values, *(f"-{label}" for label in removed), *(["taken-on"] if other_torch else []))
    return Change(pin_path, edit_pin_file(text, list(cells), values, removed, taken_on), changed)


def _refuse_blocked(record: Record, pin_path: Path, labels: Sequence[str] | None) -> None:
    """Refuse a page, or the labels, where something must be mended first."""
    page, path = record.page, show_path(record.path)
    reasons = [
        f"{path}:{finding.line}: {finding.message.splitlines()[0]}"
        for finding in review_page(page, path, pin_path, show_path(pin_path))
        if finding.kind in BLOCKING and (labels is None or finding.label in labels)
    ]
    if page.failure is not None:
        reasons.append(f"{path}: {page.failure}")
    unfinished = [
        f"{path}:{cell.line}: {cell.label} did not run to its end."
        for cell in pinned_cells(page)
        if labels is not None and cell.label in labels and not has_printed(page, cell)
    ]
    if reasons or unfinished:
        raise RefusedError("\n".join(reasons or unfinished))


def _new_value(page: Page, cell: Cell, pins: PinFile | None, *, by_build: bool) -> Value | None:
    """Return a cell's new pin, or None where the pin holds."""
    if page.setting is None or cell.label is None:
        return None
    build = page.setting.build
    want = pinned_text(page, cell.label, pins)
    got = cell.printed
    if want is not None:
        got = keep_allowed(want, got, tolerance_of(cell))
        if got == want:
            return None
    old = pins.pins.get(cell.label) if pins is not None else None
    if isinstance(old, str) and pins is not None and by_build:
        return {pins.taken_on.build: old, build: got}
    if old is None or isinstance(old, str):
        return {build: got} if by_build else got
    return {**old, build: got}


def _suggest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    return f": did you mean {', '.join(near)}?" if near else f". Known: {', '.join(known)}"
