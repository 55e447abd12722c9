"""Read what memory a process has to itself."""

from __future__ import annotations


def read_private_nbytes(smaps: str) -> int:
    """Add up what /proc/PID/smaps_rollup says that a process shares with no other, in bytes."""
    fields = (line.split() for line in smaps.splitlines())
    private = ("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:")
    return sum(1024 * int(words[1]) for words in fields if words[0] in private)
