"""How records are written out in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def name_unit(unit: str | None) -> str:
    """Return what a table shows for a unit: its name, `(root)` for `""`, `-` for none."""
    if unit is None:
        return "-"
    return unit or "(root)"


def name_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as `0-3`, or `0,2` where they do not follow each other."""
    ranks = tuple(ranks)
    if len(ranks) > 1 and ranks == tuple(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


def name_range(start: int, stop: int) -> str:
    """Return the half-open range as its first and last number: `3`, or `3-5`."""
    return f"{start}" if stop == start + 1 else f"{start}-{stop - 1}"
