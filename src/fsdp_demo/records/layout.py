"""Units, flat parameters and what lies in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fsdp_demo.records.words import name_ranks, name_unit

if TYPE_CHECKING:
    from fsdp_demo.records.shard import Shard


@dataclass(frozen=True, slots=True)
class Parameter:
    """An original parameter.

    Attributes:
        name: its name in the model.
        shape: its shape.
        numel: numbers in it.
        requires_grad: False for a frozen one.
        offset: where its first number lies in the flat parameter; 0 for one that lies in none.
        strides: None where its numbers lie in the flat parameter row by row; else the strides, in
            numbers, by which they lie.  Newer torch keeps the order that a transposed or
            channels-last parameter has in memory; 2.2.2 makes row by row of it.
        shared_names: the other names of the same parameter (tied weights), in torch's order.
    """

    name: str
    shape: tuple[int, ...]
    numel: int
    requires_grad: bool
    offset: int = 0
    strides: tuple[int, ...] | None = None
    shared_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Padding:
    """Numbers `start` to `stop` of a padded flat parameter that are no parameter.

    `kind` is "right-hand" for what makes the length divisible by the number of shards, "alignment"
    for what `use_orig_params=True` puts before a parameter so that it begins at a multiple of 16
    bytes.
    """

    start: int
    stop: int
    kind: Literal["alignment", "right-hand"]


@dataclass(frozen=True, slots=True)
class FlatParameter:
    """One unit's flat parameter.

    Attributes:
        numel: numbers in it without right-hand padding, as torch counts them: under
            `use_orig_params=True` all padding is in here.
        numel_padded: numbers in it with all padding; what is gathered.
        shard_numel: numbers in one rank's shard; `numel_padded` itself under NO_SHARD.
        dtype: of the shard at rest, as in "float32".
        gathered_dtype: of the gathered parameter (mixed precision's `param_dtype`).
        reduce_dtype: in which gradients are reduced.
        requires_grad: whether any of its parameters does.
        parameters: the original parameters, in order.
        padding: where padding lies, in order.
    """

    numel: int
    numel_padded: int
    shard_numel: int
    dtype: str
    gathered_dtype: str
    reduce_dtype: str
    requires_grad: bool
    parameters: tuple[Parameter, ...]
    padding: tuple[Padding, ...]

    @property
    def padding_numel(self) -> int:
        """Numbers of it that are padding, of either kind."""
        return sum(gap.stop - gap.start for gap in self.padding)


@dataclass(frozen=True, slots=True)
class Unit:
    """An FSDP-wrapped module.

    Attributes:
        name: the module's name in the model; `""` is the model itself.
        class_name: the wrapped module's class.
        strategy: the sharding strategy that is in force, by torch's name.  In a sharding group of
            one rank torch turns any strategy into NO_SHARD.
        ranks: global ranks of the sharding group.
        replica_ranks: global ranks that hold the same shard as this rank, in a hybrid strategy;
            else empty.
        flat_parameter: None for a unit whose parameters all belong to units below it.
    """

    name: str
    class_name: str
    strategy: str
    ranks: tuple[int, ...]
    replica_ranks: tuple[int, ...]
    flat_parameter: FlatParameter | None

    def __str__(self) -> str:
        """Return the unit as one line."""
        line = f"{name_unit(self.name)}: {self.class_name}, {self.strategy}"
        line += f", ranks {name_ranks(self.ranks)}"
        flat = self.flat_parameter
        if flat is None:
            return f"{line}, no parameters of its own"
        names = ", ".join(parameter.name for parameter in flat.parameters)
        return f"{line}, {flat.numel_padded} {flat.dtype} in {flat.shard_numel} a rank: {names}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Who owns what.

    Attributes:
        units: in the order of the module tree, outer before inner.
        shards: by unit, then by rank; of this rank's sharding group.
        ignored: parameters that no unit manages; every rank holds each of them whole.
    """

    units: tuple[Unit, ...]
    shards: tuple[Shard, ...]
    ignored: tuple[Parameter, ...]

    def unit(self, name: str) -> Unit:
        """Return the unit `name`; `KeyError`, with the names there are, when there is none."""
        for unit in self.units:
            if unit.name == name:
                return unit
        names = ", ".join(name_unit(unit.name) for unit in self.units)
        raise KeyError(f"no unit {name!r}; there are: {names}")

    def shard(self, unit: str, rank: int) -> Shard:
        """Return `rank`'s shard of the unit; `KeyError` when none was read."""
        for shard in self.shards:
            if (shard.unit, shard.rank) == (unit, rank):
                return shard
        raise KeyError(f"no shard of unit {unit!r} on rank {rank} was read")

    def __str__(self) -> str:
        """Return one line for each unit, followed by one for each of its shards."""
        lines = []
        for unit in self.units:
            lines.append(str(unit))
            lines += [f"  {shard}" for shard in self.shards if shard.unit == unit.name]
        lines += [f"ignored: {parameter.name}, whole on each rank" for parameter in self.ignored]
        return "\n".join(lines)
