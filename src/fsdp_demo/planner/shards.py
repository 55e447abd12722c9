"""Cut one rank's shard out of a flat parameter."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from fsdp_demo.records import ParameterSlice, Shard

if TYPE_CHECKING:
    from fsdp_demo.records import Unit


def cut_shard(unit: Unit, rank: int) -> Shard:
    """Return what `rank` holds of the unit's flat parameter.

    Read from `FlatParamHandle.shard` and `_get_shard_metadata`: the padded flat parameter is cut
    into equal parts, one for each rank of the group in its order; under NO_SHARD each rank holds
    all of it.  The cost is that of the parameters in the shard, whatever the world.

    Raises:
        KeyError: the unit has no parameters of its own, or the rank is not in its group.
    """
    flat = unit.flat_parameter
    if flat is None:
        raise KeyError(f"unit {unit.name!r} has no parameters of its own")
    if rank not in unit.ranks:
        raise KeyError(
            f"rank {rank} is not in the sharding group of unit {unit.name!r}; for another group,"
            " plan for a rank in it"
        )
    start = 0 if unit.strategy == "NO_SHARD" else unit.ranks.index(rank) * flat.shard_numel
    stop = start + flat.shard_numel
    slices = []
    offsets = [parameter.offset for parameter in flat.parameters]
    for index in range(max(bisect_right(offsets, start) - 1, 0), len(offsets)):
        parameter = flat.parameters[index]
        first = max(start, parameter.offset)
        last = min(stop, parameter.offset + parameter.numel)
        if parameter.offset >= stop:
            break
        if first < last:
            slices.append(
                ParameterSlice(
                    name=parameter.name,
                    shape=parameter.shape,
                    start=first - parameter.offset,
                    stop=last - parameter.offset,
                    offset=first - start,
                )
            )
    padding = tuple(
        (max(gap.start, start) - start, min(gap.stop, stop) - start)
        for gap in flat.padding
        if gap.start < stop and gap.stop > start
    )
    return Shard(unit.name, rank, start, flat.shard_numel, tuple(slices), padding)
