"""The plan itself: what FSDP will do with a model."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from fsdp_demo.planner.record import Moment, spell_moments
from fsdp_demo.planner.shards import cut_shard
from fsdp_demo.records import Layout
from fsdp_demo.records.words import name_unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsdp_demo.records import (
        Collective,
        FlatParameter,
        MemoryEvent,
        Parameter,
        Phase,
        Shard,
        Unit,
    )


@dataclass(frozen=True)
class Plan:
    """What FSDP of torch 2.2.2 will do with a model, computed before anything runs.

    The units are records as `read_layout` returns, the collectives as `count_collectives` writes
    them down, the memory events as `record_memory` does: a plan and a measurement compare with
    `==`.

    Attributes:
        world: the world size.
        rank: the rank whose collectives and memory are planned.
        units: as in `Layout`.
        ignored: as in `Layout`.
        collectives: those of the run, in order; None where they can't be known.
        unknown: why collectives and memory can't be known; None where they are.
        assumed: whether the order in which units run is assumed, since no example was given.
        notes: what the plan assumes, and what torch does silently.
        moments: the run's memory, in the form that `memory` spells out.
    """

    world: int
    rank: int
    units: tuple[Unit, ...]
    ignored: tuple[Parameter, ...]
    collectives: tuple[Collective, ...] | None
    unknown: str | None
    assumed: bool
    notes: tuple[str, ...]
    moments: tuple[Moment, ...] | None = field(repr=False)

    @functools.cached_property
    def memory(self) -> tuple[MemoryEvent, ...] | None:
        """What the rank holds at each event of the run; None where it can't be known."""
        if self.moments is None:
            return None
        return spell_moments(self.moments, [unit.name for unit in self.units])

    def unit(self, name: str) -> Unit:
        """Return the unit `name`; `KeyError`, with the names there are, when there is none."""
        return Layout(self.units, (), ()).unit(name)

    def shard(self, unit: str, rank: int | None = None) -> Shard:
        """Return a rank's shard of a unit, cut when it is asked for; this rank's when None.

        Raises:
            KeyError: no such unit, or the rank is not in its sharding group.
        """
        return cut_shard(self.unit(unit), self.rank if rank is None else rank)

    def layout(self, ranks: Iterable[int] | None = None) -> Layout:
        """Return the layout with the shards of `ranks`, as `read_layout(model, ranks)` does."""
        wanted = None if ranks is None else frozenset(ranks)
        shards = tuple(
            cut_shard(unit, rank)
            for unit in self.units
            if unit.flat_parameter is not None
            for rank in unit.ranks
            if wanted is None or rank in wanted
        )
        return Layout(self.units, shards, self.ignored)

    @property
    def _flats(self) -> list[FlatParameter]:
        """The flat parameters, in the order of their units."""
        return [unit.flat_parameter for unit in self.units if unit.flat_parameter is not None]

    @property
    def numel(self) -> int:
        """Numbers of all flat parameters' parameters, without padding."""
        return sum(parameter.numel for flat in self._flats for parameter in flat.parameters)

    @property
    def padding_numel(self) -> int:
        """Numbers of all flat parameters that are padding, over a sharding group."""
        return sum(flat.padding_numel for flat in self._flats)

    @property
    def rest_nbytes(self) -> int:
        """Bytes of parameters that this rank holds between steps, gradients not counted.

        Its shards alone; ignored parameters are none of FSDP's.
        """
        return sum(flat.shard_numel * nbytes_of(flat.dtype) for flat in self._flats)

    def peak_nbytes(self, phase: Phase | None = None) -> int | None:
        """Return the most bytes of unsharded parameters that exist at once in a phase, or ever.

        None where the run can't be known.
        """
        if self.moments is None:
            return None
        return max(
            (m.unsharded_nbytes for m in self.moments if phase is None or m.phase == phase),
            default=0,
        )

    def peak_event(self, phase: Phase) -> MemoryEvent | None:
        """Return the first moment of a phase's peak: which units are gathered then."""
        peak = self.peak_nbytes(phase)
        events = (e for e in self.memory or () if e.phase == phase and e.unsharded_nbytes == peak)
        return next(events, None)

    def count(self, kind: str, phase: Phase | None = None) -> int | None:
        """Return how many collectives of a kind the rank issues in a phase, or in all."""
        if self.collectives is None:
            return None
        return sum(c.kind == kind and phase in (None, c.phase) for c in self.collectives)

    @property
    def received_nbytes(self) -> int | None:
        """Bytes that the rank receives from others, over a ring; what it sends is as much.

        Of n ranks, an all-gather's n - 1 other shards, a reduce-scatter's n - 1 partial sums of one
        shard's size, and for an all-reduce both, of the n-th part, rounded up.
        """
        if self.collectives is None:
            return None
        return sum(_ring_nbytes(collective) for collective in self.collectives)

    def __str__(self) -> str:
        """Return the plan as a table."""
        from fsdp_demo.planner.tables import table_of  # noqa: PLC0415  # it needs this class

        return table_of(self)

    def draw(self, unit: str) -> tuple[list[tuple[str, int]], int, int]:
        """Return what `fsdp_demo.draw.draw_line` is called with for a unit.

        Raises:
            KeyError: no such unit, or it has no parameters of its own.
        """
        flat = self.unit(unit).flat_parameter
        if flat is None:
            raise KeyError(f"unit {name_unit(unit)} has no parameters of its own")
        parts = len(self.unit(unit).ranks) if flat.shard_numel < flat.numel_padded else 1
        return [(p.name, p.numel) for p in flat.parameters], flat.shard_numel, parts


def nbytes_of(dtype: str) -> int:
    """Return the bytes of one number of a dtype, as "float32"."""
    size: int = getattr(torch, dtype).itemsize
    return size


def _ring_nbytes(collective: Collective) -> int:
    ranks = len(collective.ranks)
    if collective.kind == "all-gather":
        return collective.nbytes_out - collective.nbytes_in
    if collective.kind == "reduce-scatter":
        return collective.nbytes_in - collective.nbytes_out
    return 2 * (ranks - 1) * -(-collective.nbytes_in // ranks)
