"""What a planned run writes down as it goes."""

# ruff: noqa: SLF001 - neither autograd's phase nor a storage's address is public

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from fsdp_demo.records import Collective, MemoryEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.planner.handle import Handle
    from fsdp_demo.records import EventKind, Kind, Phase


class Moment(NamedTuple):
    """A `MemoryEvent` without the names of the units that are gathered, which are many."""

    kind: EventKind
    phase: Phase
    unit: str | None
    change: int
    unsharded_nbytes: int
    unsharded_grad_nbytes: int
    shard_nbytes: int
    grad_shard_nbytes: int


class Record:
    """The collectives and the moments of one run.

    Totals are kept as they change, so that a moment costs the same with ten units or ten thousand.

    Attributes:
        collectives: what this rank issued, in order.
        moments: what it held at each event, in order.
        forwards: forwards of the model that are running.
    """

    def __init__(self, handles: Sequence[Handle]) -> None:
        self.collectives: list[Collective] = []
        self.moments: list[Moment] = []
        self.forwards = 0
        self.gathered = 0
        self.at_rest = 0
        self.gradients = 0
        self.gradient_shards = 0
        self.seen: dict[int, tuple[int, int, int, int]] = {}
        self.units = tuple(handle.name for handle in handles)
        for handle in handles:
            self.refresh(handle)

    @property
    def phase(self) -> Phase:
        """The phase now, as `fsdp_demo.phases.PhaseWatch` tells it."""
        if torch._C._current_graph_task_id() != -1:  # there is no public one
            return "backward"
        return "forward" if self.forwards else "outside"

    def refresh(self, handle: Handle) -> None:
        """Take over what the handle holds now."""
        old = self.seen.get(id(handle), (0, 0, 0, 0))
        new = handle.measure()
        self.gathered += new[0] - old[0]
        self.gradients += new[1] - old[1]
        self.at_rest += new[2] - old[2]
        self.gradient_shards += new[3] - old[3]
        self.seen[id(handle)] = new

    def write(
        self,
        kind: EventKind,
        handle: Handle | None,
        gradients: Sequence[torch.Tensor] = (),
        shards: Sequence[torch.Tensor] = (),
    ) -> None:
        """Append a moment; `gradients` and `shards` exist now besides what the handles hold."""
        change = 0
        if handle is not None:
            self.refresh(handle)
            change = {"gather": 1, "free": -1}.get(kind, 0)
        self.moments.append(
            Moment(
                kind,
                self.phase,
                None if handle is None else handle.name,
                change,
                self.gathered,
                self.gradients + sum_nbytes(gradients),
                self.at_rest,
                self.gradient_shards + sum_nbytes(shards),
            )
        )

    def write_collective(
        self,
        kind: Kind,
        handle: Handle,
        ranks: tuple[int, ...],
        dtype: str,
        nbytes: tuple[int, int],
    ) -> None:
        """Append a collective; `nbytes` are those handed in and those handed out."""
        self.collectives.append(Collective(kind, self.phase, handle.name, ranks, dtype, *nbytes))


def spell_moments(moments: Sequence[Moment], units: Sequence[str]) -> tuple[MemoryEvent, ...]:
    """Return the moments with the names of the gathered units; `units` in the tree's order."""
    order = {name: position for position, name in enumerate(units)}
    live: set[str] = set()
    names: tuple[str, ...] = ()
    events = []
    for moment in moments:
        if moment.change and moment.unit is not None:
            (live.add if moment.change > 0 else live.discard)(moment.unit)
            names = tuple(sorted(live, key=order.__getitem__))
        events.append(MemoryEvent(moment.kind, moment.phase, moment.unit, names, *moment[4:]))
    return tuple(events)


def sum_nbytes(tensors: Sequence[torch.Tensor]) -> int:
    """Return the bytes of the tensors' storages, each storage once."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())
