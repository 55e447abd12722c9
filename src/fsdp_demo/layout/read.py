"""Read a model: its units, their shards, and what no unit manages."""

# ruff: noqa: SLF001 - what torch knows of a layout is in private attributes

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed as dist

from fsdp_demo.layout.flat import read_flat_parameter
from fsdp_demo.layout.shards import read_shards
from fsdp_demo.records import Layout, Parameter, Unit
from fsdp_demo.units import LiveUnit, clean_name, find_units, unwrap_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn


def read_layout(model: nn.Module, ranks: Iterable[int] | None = None) -> Layout:
    """Read a model's units, what lies in each flat parameter, and each rank's shard of it.

    It reads torch's own metadata, before the first forward as well as after, and communicates
    nothing: every rank can do it alone.  This rank's shard is what torch wrote down when it cut the
    flat parameter (`_shard_param_infos`); the other ranks' are what the same function of torch,
    `FlatParamHandle._get_shard_metadata`, says of their part.

    Args:
        model: a module with FSDP units in it (`FullyShardedDataParallel`).
        ranks: the global ranks whose shards are read; all of this rank's sharding groups when None.
            In a world of thousands, ask for the few that are wanted.

    Returns:
        The `Layout`; names are those that the model had before it was wrapped.

    Raises:
        ValueError: no FSDP unit is in the model.

    """
    live = find_units(model)
    if not live:
        raise ValueError(
            f"{type(model).__name__} has no FSDP unit: wrap it in FullyShardedDataParallel first"
            " (a model sharded by fully_shard has no flat parameter to read)"
        )
    wanted = None if ranks is None else frozenset(ranks)
    units, shards = [], []
    for entry in live:
        unit = _read_unit(entry)
        units.append(unit)
        if unit.flat_parameter is not None:
            shards += read_shards(entry, unit, unit.flat_parameter, wanted)
    return Layout(tuple(units), tuple(shards), tuple(_read_ignored(model, live)))


def _read_unit(live: LiveUnit) -> Unit:
    replicas = getattr(live.state, "_inter_node_pg", None)
    return Unit(
        name=live.name,
        class_name=type(unwrap_checkpoint(live.module)).__name__,
        strategy=live.state.sharding_strategy.name,
        ranks=tuple(dist.get_process_group_ranks(live.state.process_group)),
        replica_ranks=() if replicas is None else tuple(dist.get_process_group_ranks(replicas)),
        flat_parameter=None if live.handle is None else read_flat_parameter(live),
    )


def _read_ignored(model: nn.Module, units: list[LiveUnit]) -> list[Parameter]:
    """Read the parameters that lie in no flat parameter, `ignored_states` among them."""
    managed = set()
    for unit in units:
        if unit.handle is not None:
            flat = unit.handle.flat_param
            managed |= {id(flat), *map(id, flat._params or ()), *map(id, flat._shared_params or ())}
    found: dict[int, Parameter] = {}
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) not in managed:
            names.setdefault(id(parameter), []).append(clean_name(name))
            first, *others = names[id(parameter)]
            found[id(parameter)] = Parameter(
                name=first,
                shape=tuple(parameter.shape),
                numel=parameter.numel(),
                requires_grad=parameter.requires_grad,
                shared_names=tuple(others),
            )
    return list(found.values())
