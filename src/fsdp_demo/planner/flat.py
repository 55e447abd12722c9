"""Lay a unit's parameters out in its flat parameter."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch.distributed.fsdp._common_utils import _named_parameters_with_duplicates

from fsdp_demo.planner.errors import PlanError
from fsdp_demo.records import FlatParameter, Padding, Parameter
from fsdp_demo.records.words import name_unit
from fsdp_demo.units import clean_name, name_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn
    from torch.distributed.fsdp import MixedPrecision

ALIGNMENT_NBYTES = 16  # `_get_aligned_numel` in torch.distributed.fsdp._flat_param


@dataclass(frozen=True, slots=True)
class Dtypes:
    """A flat parameter's dtypes: at rest, gathered, and of its gradient as it is reduced."""

    rest: torch.dtype
    gathered: torch.dtype
    reduced: torch.dtype


@dataclass(frozen=True, slots=True)
class Place:
    """Where a module holds a parameter: `module` is `module_name` below the unit's module."""

    module: nn.Module
    module_name: str
    name: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What lies in a flat parameter.

    Attributes:
        dtypes: its dtypes.
        requires_grad: whether any of its parameters does.
        params: the original parameters, in order.
        shapes: their shapes.
        places: where each of them was first found.
        shared: other places of the same parameters, and the index of the parameter.
        numels: numbers in each piece: the parameters, and padding between them.
        is_padding: for each piece, whether it is padding.
    """

    dtypes: Dtypes
    requires_grad: bool
    params: tuple[nn.Parameter, ...]
    shapes: tuple[tuple[int, ...], ...]
    places: tuple[Place, ...]
    shared: tuple[tuple[Place, int], ...]
    numels: tuple[int, ...]
    is_padding: tuple[bool, ...]

    @property
    def all_places(self) -> tuple[Place, ...]:
        """The places of all parameters, and after them those of shared ones again."""
        return (*self.places, *(place for place, _ in self.shared))

    @property
    def modules(self) -> list[nn.Module]:
        """The modules that have one of the parameters, each once."""
        return list({id(place.module): place.module for place in self.all_places}.values())

    @property
    def numel(self) -> int:
        """Numbers in it, padding among the pieces included."""
        return sum(self.numels)


def choose_dtypes(rest: torch.dtype, precision: MixedPrecision) -> Dtypes:
    """Return the dtypes; `FlatParamHandle._init_param_reduce_dtypes`.

    A `param_dtype` without a `reduce_dtype` is that of the reduction too.
    """
    gathered = precision.param_dtype or rest
    if precision.param_dtype is not None and precision.reduce_dtype is None:
        return Dtypes(rest, gathered, gathered)
    return Dtypes(rest, gathered, precision.reduce_dtype or rest)


def check_parameters(
    unit: str, params: Sequence[nn.Parameter], names: dict[int, str], *, use_orig_params: bool
) -> None:
    """Refuse what torch can't flatten, in its words.

    Read from `FlatParamHandle._validate_tensors_to_flatten`.

    Raises:
        PlanError: an integer dtype, two dtypes, or frozen and trained parameters together without
            `use_orig_params=True`.
    """
    first, *others = params

    def name(param: nn.Parameter) -> str:
        return names.get(id(param), "a parameter")

    if not first.is_floating_point():
        raise PlanError(
            f"unit {name_unit(unit)}: Cannot flatten integer dtype tensors."
            f" {name(first)} is {name_dtype(first.dtype)}: pass it in ignored_states"
        )
    seen_grad = first.requires_grad
    for param in others:
        if param.dtype != first.dtype:
            raise PlanError(
                f"unit {name_unit(unit)}: Must flatten tensors with uniform dtype but got"
                f" {first.dtype} and {param.dtype}. {name(first)} is {name_dtype(first.dtype)},"
                f" {name(param)} {name_dtype(param.dtype)}: convert one of them, make them units of"
                " their own by the policy, or pass one in ignored_states"
            )
        if not use_orig_params and param.requires_grad != seen_grad:
            trained, frozen = (first, param) if seen_grad else (param, first)
            raise PlanError(
                f"unit {name_unit(unit)}: Must flatten tensors with uniform `requires_grad` when"
                f" `use_orig_params=False`. {name(frozen)} is frozen, {name(trained)} is not: pass"
                " use_orig_params=True, or make them units of their own by the policy"
            )


def lay_out(
    module: nn.Module,
    params: Sequence[nn.Parameter],
    dtypes: Dtypes,
    group_size: int,
    *,
    use_orig_params: bool,
) -> Contents:
    """Lay out `params`, which are found below `module`, in the order of the module tree.

    Read from `FlatParamHandle._init_flat_param_and_metadata`: with `use_orig_params=True` each
    parameter begins at a multiple of 16 bytes of the *gathered* dtype, and the whole is padded to a
    multiple of the group's size, under NO_SHARD too.  A parameter found again is shared.
    """
    itemsize = torch.empty((), dtype=dtypes.gathered, device="meta").element_size()
    aligned = ALIGNMENT_NBYTES // itemsize if use_orig_params else 1
    wanted = {id(param) for param in params}
    found: dict[int, int] = {}
    kept: list[nn.Parameter] = []
    places: list[Place] = []
    shared: list[tuple[Place, int]] = []
    numels: list[int] = []
    is_padding: list[bool] = []
    total = 0
    for module_name, submodule in module.named_modules(remove_duplicate=False):
        for name, param in _named_parameters_with_duplicates(submodule, recurse=False):
            if id(param) not in wanted:
                continue
            place = Place(submodule, module_name, name)
            if id(param) in found:
                shared.append((place, found[id(param)]))
                continue
            if gap := -total % aligned:
                numels.append(gap)
                is_padding.append(True)
            found[id(param)] = len(kept)
            kept.append(param)
            places.append(place)
            numels.append(param.numel())
            is_padding.append(False)
            total += gap + param.numel()
    if use_orig_params and (gap := -total % group_size):
        numels.append(gap)
        is_padding.append(True)
    return Contents(
        dtypes=dtypes,
        requires_grad=any(param.requires_grad for param in params),
        params=tuple(kept),
        shapes=tuple(tuple(param.shape) for param in kept),
        places=tuple(places),
        shared=tuple(shared),
        numels=tuple(numels),
        is_padding=tuple(is_padding),
    )


def record_flat_parameter(
    unit: str, contents: Contents, shard_numel: int, numel_padded: int, *, use_orig_params: bool
) -> FlatParameter:
    """Return the record of a flat parameter.

    Without `use_orig_params` torch keeps of the originals' `requires_grad` only what they share.
    """
    names = [_join(unit, place.module_name, place.name) for place in contents.places]
    others: dict[int, list[str]] = {}
    for place, index in contents.shared:
        others.setdefault(index, []).append(_join(unit, place.module_name, place.name))
    parameters: list[Parameter] = []
    padding: list[Padding] = []
    starts = accumulate(contents.numels, initial=0)
    last = len(contents.numels) - 1
    for position, (start, numel, is_padding) in enumerate(
        zip(starts, contents.numels, contents.is_padding, strict=False)
    ):
        if is_padding:
            stop = start + numel
            at_end = position == last
            padding.append(Padding(start, stop, "right-hand" if at_end else "alignment"))
            continue
        index = len(parameters)
        param = contents.params[index]
        parameters.append(
            Parameter(
                name=names[index],
                shape=contents.shapes[index],
                numel=numel,
                requires_grad=param.requires_grad if use_orig_params else contents.requires_grad,
                offset=start,
                shared_names=tuple(others.get(index, ())),
            )
        )
    if numel_padded > contents.numel:
        padding.append(Padding(contents.numel, numel_padded, "right-hand"))
    return FlatParameter(
        numel=contents.numel,
        numel_padded=numel_padded,
        shard_numel=shard_numel,
        dtype=name_dtype(contents.dtypes.rest),
        gathered_dtype=name_dtype(contents.dtypes.gathered),
        reduce_dtype=name_dtype(contents.dtypes.reduced),
        requires_grad=contents.requires_grad,
        parameters=tuple(parameters),
        padding=tuple(padding),
    )


def _join(*names: str) -> str:
    return clean_name(".".join(name for name in names if name))
