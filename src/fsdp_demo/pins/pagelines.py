"""Say where on the page a traceback's frames are.

A kernel knows no page: IPython calls a cell's code ``Cell In[3], line 7``, and Python itself names
a temporary file after a hash of the cell's code, ``/tmp/ipykernel_123/4567.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsdp_demo.pins.cells import Cell, Page

_BY_COUNT = re.compile(r"(?:File )?\"?Cell In\[(\d+)\]\"?, line (\d+)")
_BY_HASH = re.compile(r"(?:File )?\"?[^\s\"]*ipykernel_\d+[/\\](\d+)\.py\"?, line (\d+)")


def name_lines(page: Page, path: str, text: str) -> str:
    """Replace each frame of a page's cell in a text by the page's ``path:line``."""
    by_count = {str(cell.count): cell for cell in page.cells}
    text = _BY_COUNT.sub(lambda found: _place(found, by_count, path), text)
    if _BY_HASH.search(text):
        by_hash = {_hash_code(cell.source): cell for cell in page.cells}
        text = _BY_HASH.sub(lambda found: _place(found, by_hash, path), text)
    return text


def find_lines(page: Page, path: str, text: str) -> list[str]:
    """Return the ``path:line`` of each frame of a page's cell that a text names, in order."""
    return re.findall(rf"{re.escape(path)}:\d+", name_lines(page, path, text))


def _place(found: re.Match[str], cells: dict[str, Cell], path: str) -> str:
    cell = cells.get(found[1])
    return found[0] if cell is None else f"{path}:{cell.code_line + int(found[2]) - 1}"


def _hash_code(source: str) -> str:
    """Return the name that ipykernel gives the temporary file of a cell."""
    from ipykernel.compiler import get_tmp_hash_seed, murmur2_x86  # noqa: PLC0415 - slow, rare

    seed = get_tmp_hash_seed()  # type: ignore[no-untyped-call]
    return str(murmur2_x86(source, seed))  # type: ignore[no-untyped-call]
