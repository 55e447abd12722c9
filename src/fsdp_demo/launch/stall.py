"""The stall detector: ranks that wait for each other are found in 2 s, not at the run's timeout.

gloo itself waits for half an hour. A stall is declared when all live ranks are asleep and use next
to no CPU, and two dumps some time apart show the same frames, each rank's innermost in
`torch.distributed`, with no collective issued in between. A rank that sleeps, computes, reads a
pipe or waits for a child process is no stall. Not found (there the timeout speaks): ranks that
poll, and any stall where there is no /proc.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import time
from typing import TYPE_CHECKING

from fsdp_demo.launch.activity import Quiet
from fsdp_demo.launch.traces import ASK, Trace, is_waiting, wait_for_dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.launch.frames import Frame
    from fsdp_demo.launch.side import Side

FIRST_LOOK_S = 1.0
AGAIN_S = 0.8
SLOWEST_S = 1.5  # between looks at ranks that are asleep, but not in a collective
DUMP_LIMIT_S = 0.3


def source_line(frame: Frame) -> str:
    """Return a frame's source line."""
    return linecache.getline(frame.filename, frame.lineno)


def ask_where(sides: Sequence[Side]) -> dict[int, Trace]:
    """Return where each live rank is: its dump, or an empty one where it does not answer."""
    live = [side for side in sides if side.is_live and side.pid is not None]
    starts = {side.rank: side.trace_size() for side in live}
    for side in live:
        with contextlib.suppress(ProcessLookupError):
            os.kill(side.pid or 0, ASK)
    wait_for_dumps([(side.trace_file, starts[side.rank]) for side in live], DUMP_LIMIT_S)
    return {side.rank: side.read_trace(starts[side.rank]) for side in live}


def find_waiting(traces: dict[int, Trace]) -> set[int]:
    """Return the ranks that wait in a collective."""
    return {rank for rank, trace in traces.items() if is_waiting(trace, source_line)}


class StallDetector:
    """Looks at the ranks now and then; says when all wait."""

    def __init__(self) -> None:
        self.quiet = Quiet()
        self.quiet_s = 0.0  # for how long all live ranks have been asleep
        self.next_look_s = FIRST_LOOK_S
        self.last_seen: object = None

    def find_stall(self, sides: Sequence[Side]) -> dict[int, Trace] | None:
        """Return where each live rank waits when all do, else None.

        To be called several times a second.
        """
        live = [side for side in sides if side.is_live]
        pids = [side.pid for side in live if side.pid is not None]
        if len(pids) < len(live):
            return None  # not all have been forked yet
        self.quiet_s = quiet_s = self.quiet.update(pids, time.monotonic())
        if quiet_s == 0.0:
            self.next_look_s, self.last_seen = FIRST_LOOK_S, None
        if quiet_s < self.next_look_s:
            return None
        traces = ask_where(live)
        is_all = len(find_waiting(traces)) == len(live)
        seen = (
            {side.rank: (side.log_size(), traces[side.rank].frames) for side in live}
            if is_all
            else None
        )
        if seen is not None and seen == self.last_seen:
            return traces
        self.last_seen = seen
        self.next_look_s = quiet_s + (AGAIN_S if is_all else SLOWEST_S)
        return None
