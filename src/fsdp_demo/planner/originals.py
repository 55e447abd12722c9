"""The gradients of the original parameters, which `use_orig_params=True` keeps.

They are views of the flat parameter's gradient, and which tensor they are views of decides whether
torch keeps that gradient, replaces it, or raises.
"""

# ruff: noqa: SLF001 - a storage is known by its private address

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from fsdp_demo.planner.errors import RefusedRunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.planner.flat import Contents


class Originals:
    """What one unit's original parameters have as gradients.

    Attributes:
        grad: the tensor that they are views of; None while they have none.
        whole: whether the views have the parameters' shapes, and are not flat parts of a shard.
        grad_is_none: torch's `_is_grad_none_mask`.
    """

    def __init__(self, contents: Contents, *, sharded: bool) -> None:
        self.sharded = sharded
        self.contents = contents
        self.held: list[tuple[int, ...]] = []  # the shapes of the trained ones in the shard
        self.shares = False  # whether one of those is shared
        self.grad: torch.Tensor | None = None
        self.whole = False
        self.grad_is_none = False

    def cut(self, numels: Sequence[int]) -> None:
        """`_use_sharded_views`: leave each original what this rank's shard holds of it, flat."""
        contents = self.contents
        for param, shape, numel in zip(contents.params, contents.shapes, numels, strict=True):
            if numel and param.requires_grad:
                self.held.append(shape)
            if self.sharded:
                param.data = torch.empty(numel, dtype=param.dtype, device="meta")

        shared = {index for _, index in contents.shared}
        self.shares = any(numels[i] and contents.params[i].requires_grad for i in shared)

    def take_shard(self, grad: torch.Tensor | None) -> None:
        """`_use_sharded_grad_views`: views of the reduced gradient; none where the shard has none.

        Raises:
            RefusedRunError: as torch does, for a shared parameter whose gradient has another dtype.
        """
        rest = self.contents.dtypes.rest
        if grad is not None and self.shares and not self.grad_is_none and grad.dtype != rest:
            raise RefusedRunError(
                f"attempting to assign a gradient with dtype {grad.dtype} to a tensor with dtype"
                f" {rest}: the gradient of a shared parameter, which was not cast back"
            )
        usable = grad is not None and self.held and not self.grad_is_none
        self.grad = grad.detach() if grad is not None and usable else None
        self.whole = not self.sharded

    def take_whole(self, grad: torch.Tensor) -> None:
        """`_use_unsharded_grad_views`: views of a gradient of full size, under `no_sync()`."""
        self.grad = grad.detach()
        self.whole = True

    def check_replaced(self) -> None:
        """`_writeback_orig_params`, where a module has a view in the place of the original.

        Under NO_SHARD that is so once a backward has entered a unit without reaching its gradient:
        `_catch_all_reshard` takes the flat parameter, whose memory is the same, for resharded.

        Raises:
            RefusedRunError: as torch does, for a parameter that is no vector.
        """
        for shape in self.contents.shapes:
            if len(shape) != 1 and 0 not in shape:
                raise RefusedRunError(
                    "Cannot writeback when the parameter shape changes: Expects"
                    f" {torch.Size([math.prod(shape)])} but got {torch.Size(shape)}"
                )

    def needs_new_grad(self, flat: torch.Tensor, *, skipped: bool) -> bool:
        """`_writeback_orig_params`: return whether it gives the flat parameter a new gradient.

        A gradient that is no view of `flat.grad` any more is copied into it, or, where there is
        none, into a new one; torch copies flat parts alone, and raises for a parameter of another
        shape.

        Raises:
            RefusedRunError: as torch does.
        """
        if skipped or not self.held:
            return False
        if self.grad is None:
            self.grad_is_none = self.grad_is_none or flat.grad is not None
            return False
        if flat.grad is not None and _same_storage(flat.grad, self.grad):
            return False
        for shape in self.held:
            if self.whole and len(shape) != 1:
                raise RefusedRunError(
                    "Cannot writeback when the gradient shape changes: Expects"
                    f" {torch.Size([math.prod(shape)])} but got {torch.Size(shape)}"
                )
        return flat.grad is None


def _same_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    storages = (one.untyped_storage()._cdata, other.untyped_storage()._cdata)
    return bool(storages[0] == storages[1])
