"""Read what each rank holds of a flat parameter."""

# ruff: noqa: SLF001 - what torch knows of a layout is in private attributes

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.records import ParameterSlice, Shard

if TYPE_CHECKING:
    from fsdp_demo.records import FlatParameter, Unit
    from fsdp_demo.units import LiveUnit


def read_shards(
    live: LiveUnit, unit: Unit, flat: FlatParameter, wanted: frozenset[int] | None
) -> list[Shard]:
    """Read each rank's shard; see `FlatParamHandle.shard` for the bounds that torch cuts at."""
    handle = live.handle
    shards = []
    for index, rank in enumerate(unit.ranks):
        if wanted is not None and rank not in wanted:
            continue
        start = index * flat.shard_numel if handle.uses_sharded_strategy else 0
        stop = start + flat.shard_numel
        infos = handle.flat_param._shard_param_infos
        if index != handle.rank:
            infos = handle._get_shard_metadata(start, stop - 1)
        slices = tuple(
            ParameterSlice(
                name=parameter.name,
                shape=parameter.shape,
                start=info.intra_param_start_idx,
                stop=info.intra_param_end_idx + 1,
                offset=info.offset_in_shard,
                strides=parameter.strides,
            )
            for parameter, info in zip(flat.parameters, infos, strict=True)
            if info.in_shard and info.numel_in_shard > 0
        )
        padding = tuple(
            (max(gap.start, start) - start, min(gap.stop, stop) - start)
            for gap in flat.padding
            if gap.start < stop and gap.stop > start
        )
        shards.append(Shard(unit.name, rank, start, flat.shard_numel, slices, padding))
    return shards
