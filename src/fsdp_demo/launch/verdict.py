"""Which rank is to blame, and for what: from the sides of all ranks to one `RankError`.

One fault brings others about: when a rank dies, its peers' sockets close, and each of them raises
"Connection closed by peer". So a rank that ended without a word is blamed before any that raised,
unless it ended itself, and later; and of those that raised, one that says nothing of a connection
before one that does, and the earliest first. Ranks with the very same fault (each of four builds a
model that can't be built) are blamed together, the lowest first.
"""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

from fsdp_demo.launch.errors import RankError
from fsdp_demo.launch.frames import (
    Frame,
    collective_in,
    is_torch,
    own_frames,
    show_frame,
    show_frames,
)
from fsdp_demo.launch.mismatch import find_mismatch, judge_mismatch
from fsdp_demo.launch.words import clean, first_line, name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.launch.side import Side

# How gloo speaks of a peer that has gone, or of one that sent something else; and how torch speaks
# of ranks that disagree, in each of them, where TORCH_DISTRIBUTED_DEBUG is DETAIL.
SECONDARY = re.compile(
    r"Connection closed by peer|Connection reset by peer|Connection refused|Broken pipe"
    r"|Socket closed|gloo/transport|preamble|Read error|Write error"
    r"|Detected mismatch between collectives on ranks"
)


def judge(sides: Sequence[Side]) -> RankError:
    """Return the error for ranks of which at least one has raised or died."""
    dead = [side for side in sides if side.status is not None and side.report is None]
    raised = [side for side in sides if side.report is not None and not side.has_returned]
    first = sorted(raised, key=lambda side: (is_secondary(side), side.report["at"], side.rank))  # type: ignore[index]  # those have one
    ended_itself = [side for side in dead if side.read_trace().event]
    aborted = [
        side for side in dead if side not in ended_itself and killed_by(side) == signal.SIGABRT
    ]
    if aborted or (first and not dead and is_secondary(first[0])):
        mismatch = find_mismatch(
            [side.read_log() for side in sides],
            ended=[side.rank for side in sides if side.has_returned],
        )
        if mismatch is not None:
            return judge_mismatch(mismatch)
    if dead and not (first and came_first(first[0], dead)):
        return judge_death(ended_itself or dead)
    return judge_raise(first)


def is_secondary(side: Side) -> bool:
    """Return whether what a rank raised, or what led to it, speaks of a peer's connection."""
    chain = (side.report or {}).get("chain", [])
    return any(SECONDARY.search(link["message"]) for link in chain)


def came_first(side: Side, dead: Sequence[Side]) -> bool:
    """Return whether a rank raised, by its own fault, before any of the dead ended itself.

    Of a rank that was killed or has crashed nobody knows the moment: its peers may have raised
    before its end was heard of.
    """
    ends = [other.read_trace() for other in dead]
    moment = min(end.event_at if end.event else 0.0 for end in ends)
    return not is_secondary(side) and side.report is not None and side.report["at"] < moment


def has_cause(sides: Sequence[Side]) -> bool:
    """Return whether the ranks' faults explain themselves: one at least doesn't come of a peer."""
    at_fault = [side for side in sides if side.is_at_fault]
    if any(side.report is None or not is_secondary(side) for side in at_fault):
        return True
    return find_mismatch([side.read_log() for side in sides]) is not None


def killed_by(side: Side) -> int | None:
    """Return the signal that ended a rank."""
    if side.status is None or not os.WIFSIGNALED(side.status):
        return None
    return os.WTERMSIG(side.status)


def judge_death(dead: Sequence[Side]) -> RankError:
    """Return the error for ranks that ended without a report."""
    side = min(dead, key=lambda side: side.rank)
    end = describe_end(side)
    alike = [other.rank for other in dead if describe_end(other) == end]
    trace = side.read_trace()
    # Only a rank that ended itself, or crashed, has left a traceback.
    frames = own_frames(trace.frames)
    parts = [show_frames(frames)] if frames else []
    if not frames:
        log = side.read_log()
        if log:
            parts.append(f"Its last collective was {log[-1]}:\n{show_frame(log[-1].frame)}")
        elif trace.step != "running the worker":
            parts.append(f"It was {trace.step or 'starting'}.")
        else:
            parts.append("It was running the worker, and had issued no collective.")
    were = "was" if len(alike) == 1 else "were"
    summary = f"{name_ranks(alike)} {end.replace('was ', were + ' ', 1)}"
    return RankError(
        summary, kind="died", rank=side.rank, frames=frames, details="\n\n".join(parts)
    )


def describe_end(side: Side) -> str:
    """Return how a rank ended, as in "was killed by SIGKILL"."""
    event = side.read_trace().event
    number = killed_by(side)
    if number is not None:
        name = signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"
        if event == f"kill {number}":
            return f"killed itself with {name}"
        if number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT):
            return f"crashed with {name}"
        hint = " (perhaps by the system, for want of memory)" if number == signal.SIGKILL else ""
        return f"was killed by {name}{hint}"
    code = os.waitstatus_to_exitcode(side.status or 0)
    if event == f"exit {code}":
        return f"called os._exit({code})"
    return f"ended with exit status {code} before its worker returned"


def judge_raise(raised: Sequence[Side]) -> RankError:
    """Return the error for ranks that raised, the one to blame first."""
    signature = sign(raised[0])
    alike = sorted((side for side in raised if sign(side) == signature), key=lambda side: side.rank)
    report: dict[str, Any] = alike[0].report or {}
    last = report["chain"][-1]
    frames = [Frame(*frame) for frame in last["frames"]]
    message = clean(last["message"])
    ranks = name_ranks([side.rank for side in alike])
    error = f"{last['type']}: {first_line(message)}" if message else last["type"]
    kind = "raised"
    if report["step"] == "pickling the return value":
        kind = "return value"
        summary = f"{ranks} returned a value that can't be pickled: {error}"
    elif report["step"] != "running the worker":
        summary = f"{ranks} failed while {report['step']}: {error}"
    elif last["type"] == "SystemExit":
        summary = f"{ranks} called sys.exit({message})"
    else:
        collective = collective_in(frames)
        inside = f" in {collective}" if collective else ""
        summary = f"{ranks} raised {last['type']}{inside}" + (
            f": {first_line(message)}" if message else ""
        )
    details = [show_link(link) for link in report["chain"]]
    return RankError(
        summary,
        kind=kind,
        rank=alike[0].rank,
        frames=own_frames(frames),
        details="\n\n".join(part for part in details if part),
    )


def sign(side: Side) -> tuple[Any, ...]:
    """Return what makes two ranks' faults the same: exception, message, and the reader's lines."""
    report = side.report or {}
    last = report["chain"][-1]
    return (
        report["step"],
        last["type"],
        clean(last["message"]),
        own_frames(Frame(*f) for f in last["frames"]),
    )


LED_TO = {
    "cause": "That was the direct cause of:",
    "context": "While that was being handled:",
}


def show_link(link: dict[str, Any]) -> str:
    """Return one exception of a chain: the reader's own frames, and what the summary omits."""
    frames = [Frame(*frame) for frame in link["frames"]]
    own = own_frames(frames)
    message = clean(link["message"])
    parts = [show_frames(own)] if own else []
    if frames and is_torch(frames[-1].filename):
        path = "torch/" + frames[-1].filename.rpartition("/torch/")[2]
        parts.append(f"raised by torch, in {frames[-1].name} of {path}")
    if link["link"]:
        parts.append(f"{link['type']}: {message}" if message else link["type"])
        parts.append(LED_TO[link["link"]])
    elif "\n" in message:
        parts.append(f"{link['type']}: {message}")
    return "\n\n".join(parts)
