"""What the last build printed, one JSON file a page: what can be accepted without another run."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsdp_demo.pins.cells import Cell, CellError, Page, Setting
from fsdp_demo.pins.files import hash_source, read_source, write_atomically

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Record:
    """A page as the last build read it, and the file it was read from."""

    page: Page
    path: Path

    @property
    def stale(self) -> bool:
        """Whether the page was changed, or removed, since; one without cells had nothing to say."""
        if not self.page.cells and self.page.failure is None:
            return False
        try:
            return hash_source(read_source(self.path)) != self.page.source_hash
        except (FileNotFoundError, UnicodeDecodeError):
            return True


def write_record(record_dir: Path, page: Page, path: Path) -> None:
    """Write what a page printed; ``path`` is the page's source."""
    content = {
        # Relative, so that a moved checkout keeps its records.
        "path": Path(os.path.relpath(path, record_dir)).as_posix(),
        "page": dataclasses.asdict(page),
    }
    text = json.dumps(content, indent=1, default=str) + "\n"
    write_atomically(record_path(record_dir, page.docname), text)


def read_records(record_dir: Path) -> dict[str, Record]:
    """Read what the last build printed, by page.

    A record that can't be read, of another version of this module, is there and stale: a page
    must not look as if it were gone.
    """
    records = {}
    for path in sorted(record_dir.rglob(f"*{SUFFIX}")):
        docname = path.relative_to(record_dir).as_posix().removesuffix(SUFFIX)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            page = _read_page(content["page"])
            source = (record_dir / content["path"]).resolve()
        except (ValueError, TypeError, KeyError):
            page, source = Page(docname, "", failure="Its record can't be read."), path
        records[docname] = Record(page, source)
    return records


def find_source(records: Mapping[str, Record], docname: str) -> Path | None:
    """Find the source of a page that the last build did not read, if it has one."""
    for record in records.values():
        folder = record.path.parents[record.page.docname.count("/")]
        found = next(folder.glob(f"{docname}.*"), None)
        if found is not None:
            return found
    return None


def drop_records(record_dir: Path, kept: Collection[str]) -> None:
    """Remove the records of all pages but those that are kept."""
    paths = {record_path(record_dir, docname) for docname in kept}
    for path in record_dir.rglob(f"*{SUFFIX}"):
        if path not in paths:
            path.unlink()


def record_path(record_dir: Path, docname: str) -> Path:
    """Return the path of a page's record."""
    return record_dir / f"{docname}{SUFFIX}"


def _read_page(content: dict[str, Any]) -> Page:
    setting = content.pop("setting")
    cells = tuple(_read_cell(cell) for cell in content.pop("cells"))
    return Page(**content, cells=cells, setting=Setting(**setting) if setting else None)


def _read_cell(content: dict[str, Any]) -> Cell:
    error = content.pop("error")
    comparisons = tuple(content.pop("comparisons"))
    return Cell(**content, error=CellError(**error) if error else None, comparisons=comparisons)
