"""Make of the command's words what `plan` takes."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecision
from torch.distributed.fsdp.wrap import (
    ModuleWrapPolicy,
    always_wrap_policy,
    size_based_auto_wrap_policy,
)

from fsdp_demo.planner.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.planner.policy import WrapPolicy


def find_object(place: str) -> Any:  # noqa: ANN401  # whatever is there
    """Return what `module:name` names.

    Raises:
        PlanError: there is no such module, or no such name in it.
    """
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise PlanError(f"{place!r} is no module:name, such as my_models:make_decoder")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise PlanError(
            f"module {module_name!r} can't be imported: {type(error).__name__}: {error}"
        ) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise PlanError(f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    return found


def make_model(place: str, device: str) -> nn.Module:
    """Return the model that `module:factory` makes, or is.

    Raises:
        PlanError: it fails, or makes something else.
    """
    factory = find_object(place)
    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise PlanError(
            f"{place} is no function that makes a model, but a {type(factory).__name__}"
        )
    try:
        with torch.device(device):
            model = factory()
    except Exception as error:
        raise PlanError(f"{place}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise PlanError(f"{place}() makes no nn.Module, but a {type(model).__name__}")
    return model


def make_policy(word: str, model: nn.Module) -> WrapPolicy:
    """Return the wrap policy: `none`, `always`, `size:N`, or the names of classes in the model.

    Raises:
        PlanError: N is no number, or no module of the model has such a class.
    """
    if word == "none":
        return None
    if word == "always":
        return always_wrap_policy
    if word.startswith("size:"):
        least = word.removeprefix("size:").replace("_", "")
        if not least.isdecimal():
            raise PlanError(f"--policy {word}: give a number of parameters, as in size:1000000")
        return functools.partial(size_based_auto_wrap_policy, min_num_params=int(least))
    classes: dict[str, set[type[nn.Module]]] = {}
    for module in model.modules():
        classes.setdefault(type(module).__name__, set()).add(type(module))
    names = word.split(",")
    if missing := [name for name in names if name not in classes]:
        raise PlanError(
            f"--policy {word}: no module of the model is a {missing[0]}, and torch would wrap"
            f" nothing but the root, in silence; its classes are {', '.join(sorted(classes))}"
        )
    return ModuleWrapPolicy(set().union(*(classes[name] for name in names)))


def make_precision(param: str | None, reduce: str | None) -> MixedPrecision | None:
    """Return torch's mixed precision; None without any dtype.

    Raises:
        PlanError: no such floating dtype.
    """
    if param is None and reduce is None:
        return None
    dtypes = []
    for name in (param, reduce):
        dtype = None if name is None else getattr(torch, name, None)
        if name is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise PlanError(f"{name!r} is no floating dtype of torch, such as bfloat16")
        dtypes.append(dtype)
    return MixedPrecision(param_dtype=dtypes[0], reduce_dtype=dtypes[1])


def make_mesh(word: str) -> tuple[int, int]:
    """Return `2x4` as (2, 4).

    Raises:
        PlanError: it is no such pair.
    """
    replicas, _, shards = word.partition("x")
    if not (replicas.isdecimal() and shards.isdecimal()):
        raise PlanError(f"--mesh {word}: give replicas x shards, as in 2x4")
    return int(replicas), int(shards)


def choose_mesh(meshes: Sequence[tuple[int, int]], world: int) -> tuple[int, int] | None:
    """Return the mesh of that world; the first where none is, which the plan then refuses."""
    fitting = (mesh for mesh in meshes if mesh[0] * mesh[1] == world)
    return next(fitting, meshes[0] if meshes else None)
