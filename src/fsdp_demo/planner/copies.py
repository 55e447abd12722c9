"""A copy of a model on the meta device: the same modules, no numbers."""

# ruff: noqa: SLF001 - nn.Module keeps what it holds in private dicts

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fsdp_demo.planner.errors import PlanError
from fsdp_demo.units import clean_name


@dataclass(frozen=True, slots=True)
class ModelCopy:
    """A model's copy on the meta device, and how the two correspond.

    Attributes:
        model: the copy.
        original: the model that was copied.
        modules: for the id of each module of the copy, the original.
        copies: for the id of each original module, parameter or buffer, its copy.
        names: for the id of each module and each parameter of the copy, its name.
        own: for the id of each module of the copy, the names of its own parameters.
    """

    model: nn.Module
    original: nn.Module
    modules: dict[int, nn.Module]
    copies: dict[int, Any]
    names: dict[int, str]
    own: dict[int, tuple[str, ...]]


def copy_model(model: nn.Module) -> ModelCopy:
    """Copy a model's tree; what is one module or one parameter stays one.

    Raises:
        PlanError: an attribute of the model can't be copied, or it holds FSDP units already.
    """
    memo: dict[int, Any] = {}
    with torch.no_grad():
        for module in model.modules():
            if "_fsdp_wrapped_module" in module._modules:  # as nn.Module keeps it
                raise PlanError("the model is wrapped by FSDP already: plan the plain model")
            for tensor in _list_own_tensors(module):
                if id(tensor) not in memo:
                    memo[id(tensor)] = _copy_tensor(tensor)
    tensors = dict(memo)
    try:
        copied = copy.deepcopy(model, memo)
    except Exception as error:
        raise PlanError(
            f"{type(model).__name__} can't be copied onto the meta device:"
            f" {type(error).__name__}: {error}"
        ) from error
    modules: dict[int, nn.Module] = {}
    copies = dict(tensors)
    names: dict[int, str] = {}
    for (name, module), original in zip(copied.named_modules(), model.modules(), strict=True):
        modules[id(module)] = original
        copies[id(original)] = module
        names[id(module)] = clean_name(name)
    for name, parameter in copied.named_parameters():
        names[id(parameter)] = clean_name(name)
    own = {id(module): tuple(module._parameters) for module in copied.modules()}
    return ModelCopy(copied, model, modules, copies, names, own)


def _list_own_tensors(module: nn.Module) -> list[torch.Tensor]:
    """Return the tensors that are attributes of this very module, registered or not."""
    found = [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]


def _copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same kind on the meta device."""
    empty = torch.empty_like(tensor, device="meta")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty.requires_grad_(tensor.requires_grad)
