"""Make the inventories by which the API reference links to Python's and torch's documentation.

    python -m tools.inventories

A build must not ask the network, and the inventories that those sites offer are large.  So the few
names that are used stand in docs/_inventories/*.txt; this writes the file that Sphinx reads, .inv,
beside each.
"""

from __future__ import annotations

import zlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "_inventories"


def make_inventory(text: str, project: str) -> bytes:
    """Return an inventory of version 2, as sphinx.util.inventory reads it."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    entries = "".join(f"{name} py:{kind} 1 {uri} -\n" for name, kind, uri in lines)
    head = (
        "# Sphinx inventory version 2\n"
        f"# Project: {project}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    return head.encode() + zlib.compress(entries.encode(), 9)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.txt")):
        inventory = make_inventory(path.read_text(encoding="utf-8"), path.stem)
        path.with_suffix(".inv").write_bytes(inventory)
        print(path.with_suffix(".inv"))
