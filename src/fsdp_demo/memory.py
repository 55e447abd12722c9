"""Follow what one rank's FSDP units hold through a step."""

# ruff: noqa: ANN401 - what stands in for a function of torch takes and returns what it does

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from torch.distributed.fsdp import _runtime_utils
from torch.distributed.fsdp._flat_param import FlatParamHandle

from fsdp_demo.patches import replaced
from fsdp_demo.phases import PhaseWatch
from fsdp_demo.records import MemoryEvent
from fsdp_demo.storages import has_whole_gradient, list_gathered, list_tensors, sum_nbytes
from fsdp_demo.units import find_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import torch
    from torch import nn

    from fsdp_demo.records import EventKind

    Function = Callable[..., Any]


@contextlib.contextmanager
def record_memory(model: nn.Module) -> Iterator[list[MemoryEvent]]:
    """Write down what this rank holds at each event of the `with` block, in order.

    The list grows as the block runs.  Bytes are the sizes of the storages themselves, of FSDP's
    parameters and gradients alone: no activations, no buffers, nothing that the allocator keeps;
    and no ignored parameter.  So they are exact, and the same from run to run.

    Args:
        model: the model, with FSDP units in it (`FullyShardedDataParallel`).

    Yields:
        The list of `fsdp_demo.records.MemoryEvent`, from "start" to "end".

    Raises:
        ValueError: no FSDP unit is in the model.

    """
    timeline = _Timeline(model)
    with contextlib.ExitStack() as stack:
        stack.enter_context(timeline.phases.watch(model))
        for owner, name, make in timeline.list_patches():
            stack.enter_context(replaced(owner, name, make))
        for hook in timeline.add_hooks():
            stack.callback(hook.remove)
        timeline.write("start", None)
        yield timeline.record
        timeline.write("end", None)


class _Timeline:
    """The units of one model, and the record so far."""

    def __init__(self, model: nn.Module) -> None:
        units = find_units(model)
        if not units:
            raise ValueError(
                f"{type(model).__name__} has no FSDP unit: wrap it in FullyShardedDataParallel"
                " first"
            )
        self.units = [unit for unit in units if unit.handle is not None]
        self.names = {id(unit.handle): unit.name for unit in self.units}
        self.phases = PhaseWatch()
        self.record: list[MemoryEvent] = []
        self.reducing: Any = None  # the handle whose gradient torch is reducing

    def list_patches(self) -> list[tuple[Any, str, Callable[[Function], Function]]]:
        """Return the functions of torch that change what a rank holds, and what watches each."""
        return [
            (FlatParamHandle, "unshard", self.watch_gathered),
            (FlatParamHandle, "reshard", self.watch_gathered),
            # `_pre_backward_hook` calls it last, just before autograd enters the unit.
            (FlatParamHandle, "prepare_gradient_for_backward", self.watch_backward),
            # `_post_backward_hook` calls one of the two, the first calls the third.
            (_runtime_utils, "_reduce_grad", self.watch_reduction),
            (_runtime_utils, "_reduce_grad_no_shard", self.watch_reduction),
            (_runtime_utils, "_get_reduce_scatter_tensors", self.watch_padded_copy),
        ]

    def add_hooks(self) -> Iterator[Any]:
        """Put hooks on the wrapped modules: their forwards run between gather and free."""
        for unit in self.units:
            name = unit.name

            def begin(*_: Any, name: str = name) -> None:
                self.write("forward-start", name)

            def end(*_: Any, name: str = name) -> None:
                self.write("forward-end", name)

            yield unit.module.register_forward_pre_hook(begin)
            yield unit.module.register_forward_hook(end)

    def watch_gathered(self, original: Function) -> Function:
        """Write "gather" or "free" when the gathered parameters' storage grew or went."""

        def watching(handle: Any, *args: Any) -> Any:
            before = sum_nbytes(list_gathered(handle))
            result = original(handle, *args)
            after = sum_nbytes(list_gathered(handle))
            if after != before:
                self.write_handle("gather" if after > before else "free", handle)
            return result

        return watching

    def watch_backward(self, original: Function) -> Function:
        """Write "backward-start"."""

        def watching(handle: Any) -> None:
            original(handle)
            self.write_handle("backward-start", handle)

        return watching

    def watch_reduction(self, original: Function) -> Function:
        """Write "reduced", and before it, where nothing is scattered, "reduce"."""

        def watching(state: Any, handle: Any) -> None:
            self.reducing = handle
            if not handle.uses_sharded_strategy:
                self.write_handle("reduce", handle)
            try:
                original(state, handle)
            finally:
                self.reducing = None
            self.write_handle("reduced", handle)

        return watching

    def watch_padded_copy(self, original: Function) -> Function:
        """Write "reduce" when the gradient, its padded copy and its new shard all exist."""

        def watching(state: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            padded, shard = original(state, gradient)
            if self.reducing is not None:
                self.write_handle("reduce", self.reducing, (gradient, padded), (shard,))
            return padded, shard

        return watching

    def write_handle(
        self,
        kind: EventKind,
        handle: Any,
        gradients: Iterable[torch.Tensor] = (),
        shards: Iterable[torch.Tensor] = (),
    ) -> None:
        """Append an event of the handle's unit; another model's handle is none of ours."""
        if id(handle) in self.names:
            self.write(kind, self.names[id(handle)], gradients, shards)

    def write(
        self,
        kind: EventKind,
        unit: str | None,
        gradients: Iterable[torch.Tensor] = (),
        shards: Iterable[torch.Tensor] = (),
    ) -> None:
        """Append an event, with what all units hold now.

        `gradients` and `shards` exist now besides those that the handles know.
        """
        at_rest: list[torch.Tensor] = []
        gathered: list[torch.Tensor] = []
        gradients, shards, live = list(gradients), list(shards), []
        for entry in self.units:
            flat, whole = entry.handle.flat_param, list_gathered(entry.handle)
            if sum_nbytes(whole):
                live.append(entry.name)
            gathered += whole
            at_rest += list_tensors(flat, "_local_shard", "_mp_shard") or [flat]
            shards += list_tensors(flat, "_saved_grad_shard")
            if flat.grad is not None:
                (gradients if has_whole_gradient(entry.handle) else shards).append(flat.grad)
        self.record.append(
            MemoryEvent(
                kind=kind,
                phase=self.phases.phase,
                unit=unit,
                unsharded=tuple(live),
                unsharded_nbytes=sum_nbytes(gathered),
                unsharded_grad_nbytes=sum_nbytes(gradients),
                shard_nbytes=sum_nbytes(at_rest),
                grad_shard_nbytes=sum_nbytes(shards),
            )
        )
