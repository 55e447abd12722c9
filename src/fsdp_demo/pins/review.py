"""All that is wrong with a page, from its plain data and its pin file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.pins.declared import check_declared
from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.pinfile import SUFFIX, BrokenPinFileError, read_pin_file
from fsdp_demo.pins.pinned import check_pins
from fsdp_demo.pins.ran import check_run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from fsdp_demo.pins.cells import Page


def review_page(
    page: Page, path: str, pin_path: Path, pin_name: str, pins_required: Sequence[str] = ()
) -> list[Finding]:
    """Find all that is wrong with a page, in the page's order.

    Args:
        page: The page as the last build read it.
        path: How messages name the page's file.
        pin_path: The page's pin file, which may not exist.
        pin_name: How messages name that.
        pins_required: Patterns of the pages that must have a pinned cell.
    """
    found = [*check_declared(page, pins_required), *check_run(page, path)]
    if page.failure is None:
        try:
            pins = read_pin_file(pin_path)
        except BrokenPinFileError as error:
            advice = f"Mend it, or take it as it was committed: git restore {pin_name}"
            found.append(Finding(Kind.BROKEN_FILE, error.line, str(error), advice, path=pin_name))
        else:
            found += check_pins(page, pins, pin_name)
    return sorted(found, key=lambda finding: (finding.path or "", finding.line))


def find_obsolete_files(pins_dir: Path, docnames: Collection[str]) -> Iterator[Path]:
    """Yield the pin files that belong to none of the pages."""
    for path in sorted(pins_dir.rglob(f"*{SUFFIX}")):
        if docname_of(path, pins_dir) not in docnames:
            yield path


def pin_path_of(docname: str, pins_dir: Path) -> Path:
    """Return the path of a page's pin file."""
    return pins_dir / f"{docname}{SUFFIX}"


def docname_of(pin_path: Path, pins_dir: Path) -> str:
    """Return the name of the page that a pin file belongs to."""
    return pin_path.relative_to(pins_dir).as_posix().removesuffix(SUFFIX)
