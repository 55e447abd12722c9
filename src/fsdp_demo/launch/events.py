"""What happened in a run, for whoever asks: each event from its own witness, in causal order.

The caller's process notes what it says and hears. What a rank does is read from the files that it
keeps in any case: its steps, and its collectives. No time is noted. Of two ranks that run side by
side neither is first, and which one is heard first differs from run to run; so the order is that
of the causes, the same each time, and what nothing orders stands by rank.
"""

from __future__ import annotations

import contextlib
import heapq
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from fsdp_demo.launch.traces import read_steps
from fsdp_demo.records import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fsdp_demo.launch.side import Side

CALLER, SERVER = "your kernel", "fork server"  # or whatever process calls `spawn`
JOIN, WORK = "joining the process group", "running the worker"

# What `note` takes: who does it, what, and to whom. `{}` is the rank, `{detail}` what else is said.
KINDS = {
    "pickle": (CALLER, "pickling the worker", None),
    "ask": (CALLER, "fork rank {}", SERVER),
    "forked": (SERVER, "rank {} begins", "rank {}"),
    "step": ("rank {}", "{detail}", None),
    "report": ("rank {}", "rank {} has {detail}", CALLER),
    "let go": (CALLER, "rank {}, leave", "rank {}"),
    "ended": (SERVER, "rank {} ended: status {detail}", CALLER),
    "clear": (CALLER, "end all that is left", SERVER),
    "cleared": (SERVER, "nothing is left", CALLER),
    "show": (CALLER, "showing rank {}'s output", None),
    "return": (CALLER, "returning the values", None),
}
PHASES = list(KINDS)
HEARD = ("report", "ended", "cleared")  # by the caller, in an order that is luck

Key = tuple[int, int, int]
"""Phase, rank (-1 for none), and number among the rank's steps."""


@dataclass(slots=True)
class Recording:
    """One run: what the caller's process noted, and what the ranks left."""

    noted: dict[Key, Event] = field(default_factory=dict)
    steps: list[list[tuple[str, bool]]] = field(default_factory=list)  # of each rank; is it joint?
    runs: int = 0

    def read_ranks(self, sides: Sequence[Side]) -> None:
        """Read what each rank did, in its own order; its collectives lie in its worker's step."""
        self.runs += 1
        for side in sides:
            steps = []
            for step in read_steps(side.trace_file):
                steps.append((step, step == JOIN))
                if step == WORK:
                    steps += [(str(issued), issued.is_compared) for issued in side.read_log()]
            self.steps.append(steps)


class Asked:
    """The recording of the run to come, where one is wanted."""

    recording: Recording | None = None


def note(kind: str, rank: int = -1, detail: object = "") -> None:
    """Note an event of the caller's process, if anybody asks."""
    if Asked.recording is not None:
        Asked.recording.noted[(PHASES.index(kind), rank, 0)] = make_event(kind, rank, detail)


def make_event(kind: str, rank: int, detail: object) -> Event:
    """Return an event of a kind."""
    by, what, to = KINDS[kind]
    receiver = None if to is None else to.format(rank)
    return Event((by.format(rank),), what.format(rank, detail=detail), receiver)


@contextlib.contextmanager
def record_events() -> Iterator[list[Event]]:
    """Record the one call of `spawn` inside; the list is filled when it has returned.

    Example::

        with record_events() as events:
            spawn(worker, 2)
    """
    events: list[Event] = []
    Asked.recording = recording = Recording()
    try:
        yield events
    finally:
        Asked.recording = None
    if recording.runs > 1:
        raise ValueError(f"record_events records one call of spawn, not {recording.runs}")
    events += order_events(recording)


def order_events(recording: Recording) -> list[Event]:
    """Return a run's events, each after its causes; of those that may come next, by phase and rank.

    Steps that all ranks have in common from the first on are one event of all ranks.
    """
    events = dict(recording.noted)
    ranks = range(len(recording.steps))
    common = list(takewhile(lambda row: len(set(row)) == 1, zip(*recording.steps, strict=False)))
    chains: dict[int, list[Key]] = {}
    phase = PHASES.index("step")
    for rank in ranks:
        chains[rank] = []
        for number, (what, is_joint) in enumerate(recording.steps[rank]):
            is_common = number < len(common)
            key = (phase, -1 if is_common else rank, number)
            by = tuple(f"rank {other}" for other in (ranks if is_common else [rank]))
            events[key] = Event(by, what, None, is_joint and is_common)
            chains[rank].append(key)
    return [events[key] for key in sort_by_cause(find_causes(recording, chains, set(events)))]


def find_causes(
    recording: Recording, chains: dict[int, list[Key]], keys: set[Key]
) -> dict[Key, set[Key]]:
    """Return what must come before each event: the doer's own past, and what it had been told."""
    causes: dict[Key, set[Key]] = {key: set() for key in keys}

    def link(*path: Key) -> None:
        for before, after in pairwise(path):
            causes[after].add(before)

    def at(kind: str, rank: int = -1) -> list[Key]:
        key = (PHASES.index(kind), rank, 0)
        return [key] if key in keys else []

    heard = list(recording.noted)
    since: list[Key] = []  # what the caller has heard since it last did something
    last: list[Key] = []
    for key in recording.noted:
        kind = PHASES[key[0]]
        if kind in HEARD:
            since.append(key)
        elif kind != "forked":
            for before in last + since:
                link(before, key)
            last, since = [key], []
    for rank, chain in chains.items():
        # From the request to the rank's end; the rank's own steps are between.
        link(*at("ask", rank), *at("forked", rank), *chain, *at("report", rank))
        link(*at("report", rank), *at("ended", rank))
        # A rank that dies doesn't wait to be let go.
        link(*sorted([*at("let go", rank), *at("ended", rank)], key=heard.index))
        link(*at("ended", rank), *at("cleared"))
        if rank:
            link(*at("forked", rank - 1), *at("forked", rank))  # one request after the other
    link(*at("clear"), *at("cleared"))
    return causes


def sort_by_cause(causes: dict[Key, set[Key]]) -> list[Key]:
    """Return the keys, each after its causes; of those that may come next, the smallest first."""
    waiting = {key: set(before) for key, before in causes.items()}
    ready = [key for key, before in waiting.items() if not before]
    heapq.heapify(ready)
    order: list[Key] = []
    while ready:
        done = heapq.heappop(ready)
        order.append(done)
        for key, before in waiting.items():
            if done in before:
                before.remove(done)
                if not before:
                    heapq.heappush(ready, key)
    if len(order) < len(causes):
        raise RuntimeError("the recording contradicts itself: an event would cause itself")
    return order
