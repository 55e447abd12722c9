"""Watch a unit's modules as they run, and see to it that they could run at all."""

# ruff: noqa: ANN401 - a hook is given whatever the module is
# ruff: noqa: SLF001 - the wrapped module has the name that FSDP gives it

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsdp_demo.planner.errors import RefusedRunError
from fsdp_demo.records.words import name_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from fsdp_demo.planner.handle import Handle
    from fsdp_demo.planner.record import Record
    from fsdp_demo.planner.unit import PlannedUnit


def watch_unit(unit: PlannedUnit, record: Record) -> None:
    """Write down the wrapped module's forward, and each change of the gradient by autograd."""
    handle = unit.handle
    if handle is None:
        return

    def begin(*_: Any) -> None:
        record.write("forward-start", handle)

    def end(*_: Any) -> None:
        record.write("forward-end", handle)

    def check(module: nn.Module, *_: Any) -> None:
        check_readable(handle, module)

    for module in handle.contents.modules:
        module.register_forward_pre_hook(check)
    unit._fsdp_wrapped_module.register_forward_pre_hook(begin)
    unit._fsdp_wrapped_module.register_forward_hook(end)
    if handle.flat.requires_grad:
        handle.flat.register_post_accumulate_grad_hook(lambda _: record.refresh(handle))


def check_readable(handle: Handle, module: nn.Module) -> None:
    """Refuse a module that runs when its parameters are not what they should be.

    Raises:
        RefusedRunError: torch reads freed memory here, or loses a gradient.
    """
    name = f"unit {name_unit(handle.name)}: a {type(module).__name__} in it"
    if not handle.readable:
        raise RefusedRunError(
            f"{name} runs while its parameters are freed, so that it reads freed memory or mere"
            " shards"
        )
    if handle.use_orig_params and not handle.sharded and handle.state == "backward-post":
        raise RefusedRunError(
            f"{name} is recomputed after the unit's gradient was reduced: its own gradient passes"
            " FSDP by"
        )


def cast_buffers(units: Sequence[PlannedUnit]) -> None:
    """Give each buffer the `buffer_dtype` of the innermost unit that has it.

    Read from `_get_buffers_and_dtypes_for_computation` in torch.distributed.fsdp._runtime_utils.
    """
    seen: set[int] = set()
    for unit in reversed(units):
        dtype = unit.precision.buffer_dtype
        ignored = {id(buffer) for module in unit.ignored_modules for buffer in module.buffers()}
        for buffer in unit._fsdp_wrapped_module.buffers():
            if id(buffer) in seen or id(buffer) in ignored:
                continue
            seen.add(id(buffer))
            if dtype is not None and buffer.is_floating_point():
                buffer.data = buffer.to(dtype)
