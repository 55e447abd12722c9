"""The command ``python -m fsdp_demo.pins``, which ``nox -s pins`` runs.

Exit status: 0 nothing is pending, or all was accepted; 1 something is pending; 2 refused, and
nothing was written.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fsdp_demo.pins.accept import RefusedError, plan_accept
from fsdp_demo.pins.files import show_path, write_atomically
from fsdp_demo.pins.findings import BLOCKING, PENDING, Kind
from fsdp_demo.pins.record import find_source, read_records
from fsdp_demo.pins.review import docname_of, find_obsolete_files, pin_path_of, review_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fsdp_demo.pins.record import Record

_PENDING, _REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Show what is pending, or accept it; return the exit status."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    if options.by_build and options.accept is None:
        parser.error("--by-build goes with --accept")
    records = read_records(options.record)
    if not records:
        return _refuse(f"{show_path(options.record)}: no build was recorded. Run `nox -s docs`.")
    if options.accept is None:
        return _show(records, options.pins)
    if os.environ.get("CI"):
        return _refuse("CI is set: pins are accepted by a person, and nothing is written here.")
    return _accept(records, options.pins, options.accept, by_build=options.by_build)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nox -s pins --",
        description="Show what the last build printed that differs from its pin, or accept it."
        " No cell is run.",
    )
    parser.add_argument(
        "--accept",
        nargs="*",
        metavar="PAGE[::LABEL]",
        help="accept what differs: on these pages, of these labels, or everywhere",
    )
    parser.add_argument(
        "--by-build",
        action="store_true",
        help="store what is accepted as the value of the build that printed it (cpu, cu121)",
    )
    parser.add_argument("--pins", type=Path, default=Path("docs/_pins"), metavar="FOLDER")
    parser.add_argument("--record", type=Path, default=Path("build/pins"), metavar="FOLDER")
    return parser


def _show(records: Mapping[str, Record], pins_dir: Path) -> int:
    pending = list(_describe_pending(records, pins_dir))
    for line in pending:
        print(line)
    if not pending:
        print("Nothing is pending: in the last build every cell printed what its pin says.")
        return 0
    print(f"\n{len(pending)} pending. To accept: nox -s pins -- --accept [page[::label]]")
    return _PENDING


def _describe_pending(records: Mapping[str, Record], pins_dir: Path) -> Iterator[str]:
    """Describe what can be accepted, and what stands in the way of that."""
    for docname, record in records.items():
        path, pin_path = show_path(record.path), pin_path_of(docname, pins_dir)
        if record.stale:
            yield f"{path}: it was changed since it was built: build first."
            continue
        if record.page.failure is not None:
            yield f"{path}: {record.page.failure}"
        for finding in review_page(record.page, path, pin_path, show_path(pin_path)):
            if finding.kind in PENDING | BLOCKING:
                yield f"{finding.path or path}:{finding.line}: {finding.message}"
    for pin_path in find_obsolete_files(pins_dir, records):
        docname = docname_of(pin_path, pins_dir)
        if source := find_source(records, docname):
            yield f"{show_path(source)}: it was not in the last build: build first."
            continue
        yield f"{show_path(pin_path)}:1: {Kind.OBSOLETE_FILE.sentence} Its page was {docname}."


def _accept(
    records: Mapping[str, Record], pins_dir: Path, targets: Sequence[str], *, by_build: bool
) -> int:
    try:
        changes = plan_accept(records, pins_dir, targets, by_build=by_build)
    except RefusedError as error:
        return _refuse(str(error))
    for change in changes:
        if change.text is None:
            change.path.unlink()
            print(f"{show_path(change.path)}: removed, its page is gone")
        else:
            write_atomically(change.path, change.text)
            print(f"{show_path(change.path)}: {', '.join(change.labels)}")
    if not changes:
        print("Nothing to accept: the last build printed what the pins say.")
    return 0


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main())
