"""What a plan has to say besides its figures, and the parameters that are nobody's."""

# ruff: noqa: SLF001 - the wrapped module has the name that FSDP gives it

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from fsdp_demo.planner.skeleton import has_forward
from fsdp_demo.records import Parameter
from fsdp_demo.records.words import name_unit
from fsdp_demo.units import clean_name, unwrap_checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.planner.unit import PlannedUnit
    from fsdp_demo.records import Unit

MODELED = "2.2.2"  # the torch whose rules a plan follows
# How torch says that an operator has to see what is in a tensor.
NEEDS_NUMBERS = re.compile(r"(aten::\w+).*: attempted to run this operator with Meta tensors")


def list_ignored(root: PlannedUnit, units: Sequence[PlannedUnit]) -> tuple[Parameter, ...]:
    """Return the parameters that lie in no flat parameter; every rank holds them whole."""
    managed: set[int] = set()
    for unit in units:
        if unit.handle is not None:
            managed |= {id(unit.handle.flat), *map(id, unit.handle.contents.params)}
    found: dict[int, list[str]] = {}
    parameters: dict[int, Any] = {}
    for name, parameter in root.named_parameters(remove_duplicate=False):
        if id(parameter) not in managed:
            found.setdefault(id(parameter), []).append(clean_name(name))
            parameters[id(parameter)] = parameter
    return tuple(
        Parameter(
            name=names[0],
            shape=tuple(parameters[key].shape),
            numel=parameters[key].numel(),
            requires_grad=parameters[key].requires_grad,
            shared_names=tuple(names[1:]),
        )
        for key, names in found.items()
    )


def note_version() -> list[str]:
    """Say that another torch than the planned one is installed."""
    if torch.__version__.split("+")[0] == MODELED:
        return []
    return [f"these are the rules of torch {MODELED}; torch {torch.__version__} may differ"]


def note_surprises(
    units: Sequence[PlannedUnit], records: Sequence[Unit], policy: object
) -> list[str]:
    """Return what torch does in silence."""
    notes = []
    if policy is not None and len(units) == 1:
        notes.append(
            "the policy matches no module: torch wraps nothing but the root, and says nothing"
        )
    notes += note_sharing(units)
    for unit, record in zip(units, records, strict=True):
        if record.strategy == "NO_SHARD" and record.replica_ranks:
            notes.append(
                f"unit {name_unit(unit.name)}: its sharding group is one rank, so torch"
                " takes NO_SHARD and reduces over that rank alone: its replicas'"
                " gradients are never averaged"
            )
            break
    return notes


def find_never_run(units: Sequence[PlannedUnit]) -> str | None:
    """Return why a run fails whose units own parameters but have no forward to gather them in."""
    for unit in units:
        module = unwrap_checkpoint(unit._fsdp_wrapped_module)  # FSDP's name
        if unit.handle is not None and not has_forward(module):
            return (
                f"unit {name_unit(unit.name)} is a {type(module).__name__}, which has no forward:"
                " FSDP never gathers its parameters; let the policy leave it out"
            )
    return None


def note_sharing(units: Sequence[PlannedUnit]) -> list[str]:
    """Name parameters that two units share, and that torch gives each of them a copy of."""
    owners: dict[int, list[str]] = {}
    for unit in units:
        for param in unit.handle.contents.params if unit.handle is not None else ():
            owners.setdefault(id(param), []).append(name_unit(unit.name))
    return [
        f"units {' and '.join(names)} share a parameter: torch flattens it into each, and it is"
        " shared no more"
        for names in owners.values()
        if len(names) > 1
    ]


def find_left_behind(root: PlannedUnit, units: Sequence[PlannedUnit]) -> str | None:
    """Return why a run fails in which two units share a parameter and `use_orig_params=True`.

    The first unit to be wrapped takes it (`_get_orig_params` in
    torch.distributed.fsdp._init_utils); the other module keeps the original, whose numbers are now
    a shard, or none.
    """
    placed: set[tuple[int, str]] = set()
    owner: dict[int, str] = {}
    for unit in units if root.use_orig_params else ():
        if unit.handle is None:
            continue
        contents = unit.handle.contents
        for place in contents.all_places:
            placed.add((id(place.module), place.name))
        owner |= {id(param): name_unit(unit.name) for param in contents.params}
    for name, module in root.named_modules():
        for own, param in module._parameters.items():  # as nn.Module keeps them
            if id(param) in owner and (id(module), own) not in placed:
                return (
                    f"{clean_name(f'{name}.{own}'.strip('.'))} is a parameter of unit"
                    f" {owner[id(param)]} too, but lies outside of it, and torch gathers it there"
                    " alone: let the policy put both in one unit"
                )
    return None


def explain_failure(error: Exception) -> str:
    """Return in one line why a forward or backward fails on the meta device."""
    text = str(error).strip() or "no message"
    if isinstance(error, NotImplementedError) and (read := NEEDS_NUMBERS.match(text)):
        return f"it reads the numbers of a tensor ({read[1]}), and a plan has none"
    return f"{type(error).__name__}: {text.splitlines()[0]}"
