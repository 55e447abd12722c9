"""Find the FSDP units of a live model, and their clean names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.distributed.fsdp._traversal_utils import _get_fsdp_states_with_modules

if TYPE_CHECKING:
    import torch
    from torch import nn

# What FSDP and activation checkpointing put into a module's path.
WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def clean_name(name: str) -> str:
    """Return a module's or parameter's dotted name as it was before wrapping.

    torch's `clean_tensor_name` (in torch.distributed.fsdp._common_utils) does the same, but leaves
    a wrapper that ends a module's name.
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def name_dtype(dtype: torch.dtype) -> str:
    """Return `torch.float32` as "float32"."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True, slots=True)
class LiveUnit:
    """An FSDP unit of a live model.

    Attributes:
        name: the clean name of its module in the model.
        module: the wrapped module itself.
        state: torch's `_FSDPState`: process groups, strategy.
        handle: torch's `FlatParamHandle`; None for a unit without parameters of its own.
    """

    name: str
    module: nn.Module
    state: Any
    handle: Any


def find_units(model: nn.Module) -> list[LiveUnit]:
    """Return the FSDP units of `model`, outer before inner; none for a model that has none.

    Read from `_get_fsdp_states_with_modules` in torch.distributed.fsdp._traversal_utils, which
    visits each state once, depth first.
    """
    names = {module: clean_name(name) for name, module in model.named_modules()}
    units = []
    for state, module in zip(*_get_fsdp_states_with_modules(model), strict=True):
        # A wrapper's own state is the wrapper itself; a composable one belongs to the bare module.
        wrapped = getattr(module, "_fsdp_wrapped_module", module)
        units.append(LiveUnit(names[module], wrapped, state, state._handle))  # noqa: SLF001  # torch's
    return units


def unwrap_checkpoint(module: nn.Module) -> nn.Module:
    """Return the module inside an activation checkpoint's wrapper, or the module itself."""
    inner: nn.Module = getattr(module, "_checkpoint_wrapped_module", module)
    return inner
