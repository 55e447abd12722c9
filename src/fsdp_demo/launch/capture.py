"""What ranks print: caught in files, shown in rank order once the run is over.

Ranks that print to one stream tear each other's lines and come in another order each time. Here
each has a file of its own for each stream, and only the parent prints. A rank may print 10 MB to a
stream; more is a fault, not a silent cut: a page that shows part of an output would not be true,
and 100 MB in a notebook is a mistake in any case.
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING

from fsdp_demo.launch.errors import RankError
from fsdp_demo.launch.events import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.launch.side import Side

MAX_BYTES = 10_000_000
SHOWN_BYTES = 10_000  # of a stream that went over the limit


def find_flood(sides: Sequence[Side]) -> RankError | None:
    """Return the error for the lowest rank that printed too much, if one did."""
    for side in sides:
        for name, file in (("stdout", side.stdout), ("stderr", side.stderr)):
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                return RankError(
                    f"rank {side.rank} printed more than {MAX_BYTES // 1_000_000} MB to {name}",
                    kind="output",
                    rank=side.rank,
                    details=f"Its first {SHOWN_BYTES // 1000} kB are shown.",
                )
    return None


def read_text(file: IO[bytes]) -> str:
    """Return what was written, as text that ends with a newline.

    Bytes that are no UTF-8 become replacement characters; half a line is completed, so that the
    next rank's first line starts a line of its own; what is over the limit is cut with a line that
    says so.
    """
    fd = file.fileno()
    nbytes = os.fstat(fd).st_size
    is_cut = nbytes > MAX_BYTES
    text = os.pread(fd, SHOWN_BYTES if is_cut else nbytes, 0).decode("utf-8", "replace")
    if text and not text.endswith("\n"):
        text += "\n"
    return text + "[… the rest is not shown]\n" if is_cut else text


def show_output(sides: Sequence[Side]) -> None:
    """Print all ranks' stdout in rank order, then their stderr, each line of that with its rank."""
    for side in sides:
        note("show", side.rank)
        sys.stdout.write(read_text(side.stdout))
    sys.stdout.flush()
    for side in sides:
        for line in read_text(side.stderr).splitlines(keepends=True):
            sys.stderr.write(f"[rank {side.rank}] {line}")
    sys.stderr.flush()
