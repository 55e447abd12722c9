"""Let one rank of four go wrong, and say how long it took until `spawn` named it.

    python -m tools.bench.ranks.faulty

Reads a request a line, ``{"fault": "raise"}``, and answers ``{"seconds": …, "rank": …}``: from the
last thing that the rank did by itself to the moment at which the caller holds the message.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WORLD = 4
FAULTY = 2  # none of the ranks that a launcher would blame for being first or last


def note(folder: str, rank: int) -> None:
    """Note the moment; the monotonic clock is the same in every process."""
    Path(folder, f"at-{rank}").write_text(repr(time.monotonic()), encoding="ascii")


def work(rank: int, world: int, fault: str, folder: str) -> None:
    """Run an all-reduce, then another; between the two one rank goes wrong."""
    import torch  # noqa: PLC0415  # in the rank
    import torch.distributed as dist  # noqa: PLC0415  # likewise

    del world
    ones = torch.ones(4)
    dist.all_reduce(ones)
    if rank == FAULTY:
        note(folder, rank)
        FAULTS[fault]()
        return  # deadlock: without the collective that the others wait in
    if fault == "deadlock":
        note(folder, rank)
    dist.all_reduce(ones)


def fail() -> None:
    """Raise."""
    raise ValueError("a rank went wrong on purpose")


FAULTS: dict[str, Callable[[], object]] = {
    "raise": fail,
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "deadlock": lambda: None,
}


def serve() -> None:
    """Answer requests until there are no more."""
    from fsdp_demo import RankError, spawn  # noqa: PLC0415  # the caller's side alone

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spawn(abs_rank, WORLD)  # not counted: the imports
    answer: dict[str, object] = {"ready": True}
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        line = sys.stdin.readline()
        if not line:
            return
        fault = json.loads(line)["fault"]
        with tempfile.TemporaryDirectory() as folder:
            try:
                spawn(work, WORLD, fault, folder)
            except RankError as error:
                now = time.monotonic()
                at = max(float(n.read_text(encoding="ascii")) for n in Path(folder).glob("at-*"))
                answer = {"seconds": now - at, "rank": error.rank, "message": str(error)}
            else:
                answer = {"error": f"{fault}: no rank was blamed"}


def abs_rank(rank: int, world: int) -> int:
    """Do next to nothing."""
    return abs(rank - world)


if __name__ == "__main__":
    serve()
