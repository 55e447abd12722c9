"""Reduce a unit's gradient: the collectives, and the tensors that exist meanwhile.

The rules of torch 2.2.2's `_post_backward_hook`, `_reduce_grad` and `_reduce_grad_no_shard`
(torch.distributed.fsdp._runtime_utils).
"""

# ruff: noqa: S101 - autograd has put the gradient there

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

from fsdp_demo.planner.errors import RefusedRunError
from fsdp_demo.planner.groups import HYBRID
from fsdp_demo.units import name_dtype

if TYPE_CHECKING:
    import torch

    from fsdp_demo.planner.handle import Handle
    from fsdp_demo.planner.record import Record


def set_gradient_aside(handle: Handle, *, keep_low: bool) -> None:
    """Keep an earlier gradient to add to: `FlatParamHandle.prepare_gradient_for_backward`."""
    grad = handle.flat.grad
    if grad is None or grad.numel() == handle.contents.numel:
        return
    if grad.numel() != handle.shard_numel:
        raise RefusedRunError("Expects `.grad` to be the unsharded gradient in `no_sync()`")
    handle.saved = grad.data
    if keep_low and grad.dtype != handle.contents.dtypes.rest:
        handle.saved = grad.to(handle.contents.dtypes.rest)
    handle.flat.grad = None


def finalize_gradient(handle: Handle, *, keep_low: bool) -> None:
    """Put the reduced gradient in its place: `FlatParamHandle.prepare_gradient_for_optim`.

    Raises:
        RefusedRunError: as torch does, where autograd came to the parameters with no gradient.
    """
    if handle.saved is not None:
        if handle.post_backward_called:
            handle.flat.grad = handle.saved
            if keep_low and handle.saved.dtype != handle.contents.dtypes.gathered:
                handle.flat.grad.data = handle.saved.to(handle.contents.dtypes.gathered)
                if handle.use_orig_params:
                    handle.originals.take_shard(handle.flat.grad)
        handle.saved = None
    elif handle.sharded and handle.post_backward_called:
        raise RefusedRunError(
            "All sharded parameters that received a gradient in the post-backward should use"
            " `_saved_grad_shard`: autograd reached the unit's parameters, but with no gradient"
        )
    handle.post_backward_called = False


def reduce_gradient(handle: Handle, record: Record, *, keep_low: bool) -> None:
    """Reduce the gradient in `handle.flat.grad` and leave the result where torch leaves it."""
    grad = handle.flat.grad
    assert grad is not None  # autograd has just put it there
    dtype = handle.contents.dtypes.reduced
    if grad.dtype != dtype:
        grad.data = grad.to(dtype)
    if handle.sharded:
        _reduce_scatter(handle, record)
    else:
        _all_reduce(handle, record, keep_low=keep_low)
    if handle.use_orig_params:
        handle.originals.grad_is_none = False
        handle.originals.take_shard(handle.flat.grad if handle.saved is None else handle.saved)
    record.write("reduced", handle)


def _reduce_scatter(handle: Handle, record: Record) -> None:
    """`_reduce_grad`, with `_get_reduce_scatter_tensors` and `_accumulate_sharded_grad`."""
    grad = handle.flat.grad
    assert grad is not None
    whole = grad.data
    handle.flat.grad = None
    record.refresh(handle)
    gap = handle.numel_padded - whole.numel()
    padded = functional.pad(whole, [0, gap]) if gap else whole
    shard = whole.new_empty(handle.shard_numel)
    record.write("reduce", handle, (whole, padded), (shard,))
    _write(record, handle, "reduce-scatter", padded, shard)
    if handle.strategy in HYBRID:
        _write(record, handle, "all-reduce", shard, shard)
    if shard.dtype != handle.contents.dtypes.rest:
        shard = shard.to(handle.contents.dtypes.rest)
    if handle.saved is None:
        handle.saved = shard


def _all_reduce(handle: Handle, record: Record, *, keep_low: bool) -> None:
    """`_reduce_grad_no_shard`: in place, over the sharding group, whatever its size."""
    grad = handle.flat.grad
    assert grad is not None
    record.write("reduce", handle)
    _write(record, handle, "all-reduce", grad, grad)
    if not keep_low and grad.dtype != handle.contents.dtypes.rest:
        grad.data = grad.to(handle.contents.dtypes.rest)


def _write(
    record: Record, handle: Handle, kind: str, given: torch.Tensor, taken: torch.Tensor
) -> None:
    ranks = handle.group.ranks
    if kind == "all-reduce" and handle.sharded:
        ranks = handle.group.replica_ranks
    record.write_collective(
        kind,  # type: ignore[arg-type]
        handle,
        ranks,
        name_dtype(given.dtype),
        (given.numel() * given.itemsize, taken.numel() * taken.itemsize),
    )
