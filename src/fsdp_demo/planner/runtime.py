"""What FSDP does as a model runs: when it gathers, frees, prefetches and reduces.

The rules of torch 2.2.2's torch.distributed.fsdp._runtime_utils; each method names the function it
was read from.  It is driven by a forward and a backward on the meta device, so autograd, and no
assumption, decides when a backward enters a unit and when a gradient is complete.
"""

# ruff: noqa: ANN401 - hooks and forwards pass on whatever they are given
# ruff: noqa: SLF001 - FSDP calls autograd's private engine

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import Variable
from torch.autograd.graph import register_multi_grad_hook
from torch.distributed.utils import _apply_to_tensors, _cast_forward_inputs
from torch.utils import _pytree as pytree

from fsdp_demo.planner.errors import RefusedRunError
from fsdp_demo.planner.handle import RESHARD_AFTER_FORWARD, Handle
from fsdp_demo.planner.prefetch import Order
from fsdp_demo.planner.record import Record
from fsdp_demo.planner.reduction import finalize_gradient, reduce_gradient, set_gradient_aside
from fsdp_demo.planner.watching import cast_buffers, watch_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.planner.unit import PlannedUnit


class Run:
    """The run of one model: its units, in the order of the module tree, the root first."""

    def __init__(self, units: Sequence[PlannedUnit]) -> None:
        self.units = units
        self.handles = [unit.handle for unit in units if unit.handle is not None]
        self.record = Record(self.handles)
        self.order = Order()
        self.started = False
        for unit in units:
            unit.run = self
            watch_unit(unit, self.record)

    def close(self) -> None:
        """Take the views out of the modules: torch's garbage collection is not safe for them."""
        for handle in self.handles:
            handle.drop_views()

    def enter(self, unit: PlannedUnit, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """`_root_pre_forward`, then `_pre_forward`."""
        if not self.started:  # `_lazy_init`: the unit that runs first is the root
            self.started = unit.is_root = True
            cast_buffers(self.units)
        if unit.is_root:
            args, kwargs = self._enter_root(unit, args, kwargs)
        handle = unit.handle
        if handle is not None and handle.state == "backward-pre":
            return args, kwargs
        unit.idle = False
        if handle is not None:
            self.order.record_pre_forward(handle)
            handle.state = "forward"
            if not handle.prefetched:
                handle.unshard(self.record)
            handle.needs_pre_forward = False
            self._prefetch(unit, handle)
            self._hook_gradient(unit, handle)
            if unit.precision.cast_forward_inputs:
                args, kwargs = _cast_forward_inputs(unit.precision.param_dtype, *args, **kwargs)
            self._hook_inputs(unit, handle, args, kwargs)
        return args, kwargs

    def _enter_root(self, root: PlannedUnit, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """`_root_pre_forward`."""
        self.record.forwards += 1
        if root.forward_prefetch:
            for handle in self.handles:
                handle.needs_pre_forward = True
                handle.prefetched = False
        self.reset_gradients()
        if root.precision.cast_root_forward_inputs:
            args, kwargs = _cast_forward_inputs(root.precision.param_dtype, *args, **kwargs)
        return args, kwargs

    def reset_gradients(self) -> None:
        """`_reset_flat_param_grad_info_if_needed`: drop a gradient that no original has."""
        for handle in self.handles:
            if handle.use_orig_params and handle.originals.grad is None:
                handle.flat.grad = None
                self.record.refresh(handle)

    def leave(self, unit: PlannedUnit, output: Any) -> Any:  # the module's own
        """`_post_forward`: the root is not freed, since its backward comes next."""
        handle = unit.handle
        if handle is None or handle.state != "backward-pre":
            if handle is not None:
                self.order.record_post_forward(handle)
                free = not unit.is_root and handle.strategy in RESHARD_AFTER_FORWARD
                handle.reshard(self.record, free=free)
            output = self._hook_outputs(unit, output)
            unit.idle = True
            if handle is not None:
                handle.state = "idle"
        if unit.is_root:
            self.record.forwards -= 1
        return output

    def _hook_outputs(self, unit: PlannedUnit, output: Any) -> Any:
        """`_register_pre_backward_hooks`."""
        if not torch.is_grad_enabled():
            return output
        if unit.is_root:
            unit.callback_queued = False
        handle = unit.handle
        if handle is not None:
            handle.needs_pre_backward = False
            handle.ran_pre_backward = False

        def hook(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.requires_grad:
                tensor.register_hook(functools.partial(self._before_backward, unit))
                if handle is not None:
                    handle.needs_pre_backward = True
            return tensor

        return _apply_to_tensors(hook, output)

    def _hook_gradient(self, unit: PlannedUnit, handle: Handle) -> None:
        """`_register_post_backward_hook`: on the flat parameter, at its first forward."""
        if (
            not torch.is_grad_enabled()
            or handle.post_backward_hook
            or not handle.flat.requires_grad
        ):
            return
        view = handle.flat.expand_as(handle.flat)
        accumulate: Any = view.grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        removable = accumulate.register_hook(functools.partial(self._after_backward, unit, handle))
        handle.post_backward_hook = (accumulate, removable)

    def _hook_inputs(self, unit: PlannedUnit, handle: Handle, args: Any, kwargs: Any) -> None:
        """`_register_post_backward_reshard_only_hook`: for a unit that is frozen."""
        if not torch.is_grad_enabled() or handle.post_backward_hook or handle.flat.requires_grad:
            return
        leaves = pytree.arg_tree_leaves(*args, **kwargs)
        wanted = [leaf for leaf in leaves if torch.is_tensor(leaf) and leaf.requires_grad]
        hook = functools.partial(self._reshard_after_backward, unit, handle)
        handle.post_backward_hook = (register_multi_grad_hook(wanted, hook),)

    def _before_backward(self, unit: PlannedUnit, *_: Any) -> None:  # a hook's
        """`_pre_backward_hook`: autograd is about to enter the unit."""
        handle = unit.handle
        if handle is not None and handle.ran_pre_backward:
            return
        if unit.is_root and not unit.callback_queued:
            if not unit.idle:
                raise RefusedRunError("expected to be in states [IDLE] but current state is not")
            unit.callback_queued = True
            Variable._execution_engine.queue_callback(  # what FSDP calls
                functools.partial(self._finish_backward, unit)
            )
            self.reset_gradients()
        elif handle is not None and not unit.idle:
            raise RefusedRunError("expected to be in states [IDLE] but current state is not")
        unit.idle = False
        if handle is None:
            return
        handle.state = "backward-pre"
        if handle.needs_pre_backward and not handle.prefetched:
            handle.unshard(self.record)
        handle.needs_pre_backward = False
        self._prefetch(unit, handle)
        set_gradient_aside(handle, keep_low=unit.precision.keep_low_precision_grads)
        self.record.write("backward-start", handle)
        handle.ran_pre_backward = True

    @torch.no_grad()
    def _after_backward(self, unit: PlannedUnit, handle: Handle, *_: Any) -> None:
        """`_post_backward_hook`: the flat parameter's gradient is complete."""
        handle.post_backward_called = True
        if unit.idle:
            raise RefusedRunError("expected to be in states [FORWARD_BACKWARD] but is IDLE")
        if handle.state not in ("backward-pre", "backward-post"):
            raise RefusedRunError(
                f"Expects `BACKWARD_PRE` or `BACKWARD_POST` state but got {handle.state}"
            )
        handle.state = "backward-post"
        if handle.flat.grad is None:
            return
        self._reshard_after_backward(unit, handle)
        if not unit.sync_gradients:
            if handle.use_orig_params:
                handle.originals.take_whole(handle.flat.grad)
            return
        reduce_gradient(handle, self.record, keep_low=unit.precision.keep_low_precision_grads)

    def _reshard_after_backward(self, unit: PlannedUnit, handle: Handle, *_: Any) -> None:
        """`_post_backward_reshard`."""
        handle.reshard(self.record, free=self._frees_in_backward(unit, handle))
        self._prefetch(unit, handle)

    def _frees_in_backward(self, unit: PlannedUnit, handle: Handle) -> bool:
        """`_should_free_in_backward`."""
        return handle.sharded and (unit.sync_gradients or handle.strategy in RESHARD_AFTER_FORWARD)

    def _prefetch(self, unit: PlannedUnit, handle: Handle) -> None:
        """`_prefetch_handle`."""
        target = self.order.find_prefetch(
            handle, unit.backward_prefetch, forward_prefetch=unit.forward_prefetch
        )
        if target is not None:
            before = target.state
            target.state = "forward" if handle.state == "forward" else "backward-pre"
            target.unshard(self.record)
            target.state = before
            target.prefetched = True

    @torch.no_grad()
    def _finish_backward(self, root: PlannedUnit) -> None:
        """`_post_backward_final_callback`."""
        self.order.next_iteration()
        for unit in self.units:
            handle = unit.handle
            if handle is not None:
                # `_catch_all_reshard`, which compares addresses: those of NO_SHARD are the same.
                moved = handle.in_force != "shard" and (handle.sharded or handle.mixed)
                if moved or handle.skipped_views:
                    handle.reshard(self.record, free=self._frees_in_backward(unit, handle))
                if handle.post_backward_hook:
                    handle.post_backward_hook[-1].remove()
                    handle.post_backward_hook = ()
                if handle.flat.requires_grad and unit.sync_gradients:  # `_finalize_params`
                    finalize_gradient(handle, keep_low=unit.precision.keep_low_precision_grads)
                self.record.refresh(handle)
                handle.ran_pre_backward = False
                handle.needs_pre_backward = False
                handle.post_forward_index = None
                handle.state = "idle"
                handle.prefetched = False
            unit.idle = True
        root.callback_queued = False
