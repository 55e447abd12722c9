"""A forward for a model of which only the module tree is known.

It runs each module's children in the order in which they are registered, then uses the module's own
parameters.  An `nn.Sequential` and a checkpoint's wrapper run their own forwards.
"""

# ruff: noqa: ANN401 - autograd's context has no type
# ruff: noqa: SLF001 - the wrapped module has the name that FSDP gives it

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import ActivationWrapper

from fsdp_demo.planner.unit import PlannedUnit
from fsdp_demo.units import unwrap_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.planner.copies import ModelCopy

ASSUMED = (
    "the order of units is assumed: each module runs its children once, as registered, and then"
    " uses its own parameters; every output gets a gradient. Pass example= to run the forward"
    " itself"
)


def assume_forwards(copied: ModelCopy) -> None:
    """Give every module of the copy the assumed forward."""
    for module in copied.model.modules():
        if isinstance(module, PlannedUnit | ActivationWrapper | nn.Identity):
            continue
        if type(module) is nn.Sequential or not has_forward(module):
            continue
        names = copied.own[id(module)]
        module.forward = functools.partial(_run_module, module, names)


def make_input() -> torch.Tensor:
    """Return what the assumed forward is called with."""
    return torch.empty(1, device="meta")


def has_forward(module: nn.Module) -> bool:
    """Whether a module can be called; an `nn.ModuleList` can't, only what is in it."""
    return type(module).forward is not nn.Module.forward


def _list_called(module: nn.Module) -> Iterator[nn.Module]:
    """Yield what a module's forward calls: its children, and what lists of them hold."""
    for child in module.children():
        inner = child._fsdp_wrapped_module if isinstance(child, PlannedUnit) else child
        if has_forward(unwrap_checkpoint(inner)):
            yield child
        else:
            yield from _list_called(unwrap_checkpoint(inner))


def _run_module(module: nn.Module, names: tuple[str, ...], value: torch.Tensor) -> torch.Tensor:
    for child in _list_called(module):
        value = child(value)
    used = [getattr(module, name) for name in names]
    present = [tensor for tensor in used if tensor is not None]
    result: torch.Tensor = _Use.apply(value, *present)  # type: ignore[no-untyped-call]
    return result


class _Use(torch.autograd.Function):
    """An operator that uses parameters: one node of the graph, with a gradient for each of them."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, *used: torch.Tensor) -> torch.Tensor:
        """Return a new tensor like `value`."""
        ctx.save_for_backward(*used)
        return torch.empty_like(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return a gradient for the value and each parameter that wants one."""
        needed = ctx.needs_input_grad[1:]
        return (
            gradients[0],
            *(
                torch.empty_like(tensor) if wanted else None
                for tensor, wanted in zip(ctx.saved_tensors, needed, strict=True)
            ),
        )
