"""Ranks that wait too long: which of them holds up the others, and where each is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.launch.errors import RankError
from fsdp_demo.launch.frames import collective_in, own_frames, show_frame, show_frames
from fsdp_demo.launch.mismatch import find_mismatch, judge_mismatch
from fsdp_demo.launch.words import join_words, name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.launch.mismatch import Issued
    from fsdp_demo.launch.side import Side
    from fsdp_demo.launch.traces import Trace


def judge_stall(sides: Sequence[Side], traces: dict[int, Trace]) -> RankError:
    """Return the error for ranks that all wait for each other.

    Args:
        sides: all ranks.
        traces: where each rank waits that has not returned.
    """
    logs = [side.read_log() for side in sides]
    mismatch = find_mismatch(logs)
    if mismatch is not None:
        return judge_mismatch(mismatch)
    returned = [side.rank for side in sides if side.has_returned]
    skipped = find_mismatch(logs, ended=returned)
    if skipped is not None:  # a rank may also have returned rightly, its own part done
        returned = [rank for rank, issued in skipped.issued.items() if issued is None]
    waits: dict[str, list[int]] = {}
    for rank, trace in traces.items():
        waits.setdefault(name_wait(trace, logs[rank]), []).append(rank)
    still = " still" if returned else ""
    waiting = join_words(
        [f"{name_ranks(ranks)}{still} {verb(ranks)} {what}" for what, ranks in waits.items()]
    )
    summary = (
        f"{name_ranks(returned)} returned, but {waiting}"
        if returned
        else f"no rank goes on: {waiting}"
    )
    parts = ["The ranks of a group must all issue the same collectives in the same order."]
    for rank in returned[:1]:
        if logs[rank]:
            last = logs[rank][-1]
            parts.append(f"The last one of rank {rank} was {last}:\n{show_frame(last.frame)}")
        else:
            parts.append(f"Rank {rank} issued none.")
    parts += show_positions(traces, are_waiting=True)
    return RankError(
        summary,
        kind="stalled",
        rank=returned[0] if returned else min(traces),
        frames=own_frames(traces[min(traces)].frames),
        details="\n\n".join(parts),
    )


def judge_timeout(
    sides: Sequence[Side], traces: dict[int, Trace], waiting: set[int], timeout_s: float
) -> RankError:
    """Return the error for a run that took too long: a rank that doesn't wait is to blame.

    Args:
        sides: all ranks.
        traces: where each rank is that has not returned.
        waiting: which of those wait in a collective.
        timeout_s: the run's limit in seconds.
    """
    if not all(side.has_joined for side in sides):  # those that have wait for the others
        waiting = waiting | {side.rank for side in sides if side.has_joined}
    busy = {rank: trace for rank, trace in traces.items() if rank not in waiting}
    if not busy:
        return judge_stall(sides, traces)
    ranks = list(busy)
    trace = busy[ranks[0]]
    was = "was" if len(ranks) == 1 else "were"
    doing = trace.step or "starting"
    summary = f"{name_ranks(ranks)} {was} still {doing} after {timeout_s:g} s (timeout_s)"
    parts = show_positions(busy)
    parts += show_positions({r: t for r, t in traces.items() if r in waiting}, are_waiting=True)
    return RankError(
        summary,
        kind="timeout",
        rank=ranks[0],
        frames=own_frames(trace.frames),
        details="\n\n".join(parts),
    )


def verb(ranks: Sequence[int]) -> str:
    """Return "waits in" for one rank, "wait in" for several."""
    return "waits in" if len(ranks) == 1 else "wait in"


def name_wait(trace: Trace, log: list[Issued]) -> str:
    """Return the collective that a rank waits in."""
    if trace.step != "running the worker":
        return f"{trace.step}"
    # The wait for an asynchronous collective is a call into C: the trace doesn't name the
    # collective.
    return collective_in(trace.frames) or (log[-1].name if log else "torch.distributed")


def show_positions(traces: dict[int, Trace], *, are_waiting: bool = False) -> list[str]:
    """Return where ranks are, the reader's own lines, ranks at the same place together."""
    places: dict[str, list[int]] = {}
    for rank, trace in traces.items():
        frames = own_frames(trace.frames)
        if frames:
            place = f"here:\n{show_frames(frames)}"
        elif trace.frames:
            place = f"in {trace.frames[-1].name}, while {trace.step or 'starting'}."
        else:
            place = f"somewhere in C code or stopped: no answer, while {trace.step or 'starting'}."
        places.setdefault(place, []).append(rank)
    shown = []
    for place, ranks in places.items():
        one, several = ("waits", "wait") if are_waiting else ("is", "are")
        what = one if len(ranks) == 1 else several
        shown.append(f"{name_ranks(ranks).capitalize()} {what} {place}")
    return shown
