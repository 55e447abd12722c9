"""A flat parameter through a run: whether it is gathered, and what gradients it has.

The rules of torch's `FlatParamHandle` (torch.distributed.fsdp._flat_param), on a flat parameter
without numbers.  Its pieces are real views of it, so that autograd itself decides when its gradient
is complete.
"""

# ruff: noqa: SLF001 - nn.Module keeps its parameters in a private dict

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp._common_utils import _set_fsdp_flattened

from fsdp_demo.planner.errors import RefusedRunError
from fsdp_demo.planner.originals import Originals
from fsdp_demo.planner.record import Record, sum_nbytes
from fsdp_demo.units import name_dtype

if TYPE_CHECKING:
    from fsdp_demo.planner.flat import Contents, Place
    from fsdp_demo.planner.groups import Group

State = Literal["idle", "forward", "backward-pre", "backward-post"]

RESHARD_AFTER_FORWARD = (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)


class Handle:
    """One flat parameter.

    Attributes:
        name: the unit's name.
        flat: the flat parameter on the meta device; its `data` is the shard or the whole.
        saved: `_saved_grad_shard`: the reduced gradient, until the backward ends.
        state: torch's `HandleTrainingState`.
        gathered: whether its whole exists.
        skipped_views: `_skipped_use_sharded_views`: the shard is in force, but the modules
            still hold views of the whole.
        views_in_modules: whether the modules hold views in the place of the originals.
    """

    def __init__(
        self,
        name: str,
        contents: Contents,
        group: Group,
        strategy: ShardingStrategy,
        *,
        use_orig_params: bool,
    ) -> None:
        self.name = name
        self.contents = contents
        self.group = group
        self.strategy = strategy
        self.use_orig_params = use_orig_params
        self.sharded = strategy is not ShardingStrategy.NO_SHARD
        numel = contents.numel
        # `FlatParamHandle._get_shard`: as long as the first of `Tensor.chunk`'s chunks.
        self.shard_numel = -(-numel // len(group.ranks)) if self.sharded else numel
        self.numel_padded = self.shard_numel * len(group.ranks) if self.sharded else numel
        self.mixed = contents.dtypes.gathered != contents.dtypes.rest
        self.shard = torch.empty(self.shard_numel, dtype=contents.dtypes.rest, device="meta")
        self.whole = torch.empty(numel, dtype=contents.dtypes.gathered, device="meta")
        self.flat = nn.Parameter(self.shard, requires_grad=contents.requires_grad)
        _set_fsdp_flattened(self.flat)
        if use_orig_params:
            for param in contents.params:
                _set_fsdp_flattened(param)
        self.views: list[torch.Tensor] = []
        self.saved: torch.Tensor | None = None
        self.gathered = False
        self.low_precision_shard = False
        self.in_force: Literal["shard", "whole"] = "shard"
        self.skipped_views = False
        self.views_in_modules = False
        self.state: State = "idle"
        self.originals = Originals(contents, sharded=self.sharded)
        self.post_backward_called = False
        self.post_backward_hook: tuple[Any, ...] = ()
        self.ran_pre_backward = False
        self.needs_pre_forward = False
        self.needs_pre_backward = False
        self.prefetched = False
        self.pre_forward_index: int | None = None
        self.post_forward_index: int | None = None
        self.replace(self.flat)

    @property
    def readable(self) -> bool:
        """Whether what the modules' views look into exists."""
        if self.sharded:
            return self.gathered
        return self.low_precision_shard or not self.mixed

    def measure(self) -> tuple[int, int, int, int]:
        """Return bytes gathered, of whole gradients, at rest, and of reduced gradients."""
        dtypes = self.contents.dtypes
        gathered = self.numel_padded * dtypes.gathered.itemsize if self.gathered else 0
        at_rest = self.shard_numel * dtypes.rest.itemsize
        if self.low_precision_shard:
            at_rest += self.shard_numel * dtypes.gathered.itemsize
        gradients: list[torch.Tensor] = []
        shards = [] if self.saved is None else [self.saved]
        if self.flat.grad is not None:
            whole = self.sharded and self.post_backward_called
            (gradients if whole else shards).append(self.flat.grad)
        return gathered, sum_nbytes(gradients), at_rest, sum_nbytes(shards)

    def unshard(self, record: Record) -> None:
        """`_unshard` in _runtime_utils: the handle's `pre_unshard`, `unshard`, `post_unshard`."""
        if self.use_orig_params and (not self.sharded or self.in_force == "shard"):
            if self.views_in_modules and not self.sharded:
                self.originals.check_replaced()
            if self.originals.needs_new_grad(self.flat, skipped=self.skipped_views):
                self.flat.grad = torch.zeros_like(self.flat)
            record.refresh(self)
        already = self.gathered if self.sharded else False
        if self.mixed and not already:
            self.low_precision_shard = True  # `_use_low_precision_shard`
            record.refresh(self)
        if self.sharded and not self.gathered:
            size = self.contents.dtypes.gathered.itemsize
            record.write_collective(
                "all-gather",
                self,
                self.group.ranks,
                name_dtype(self.contents.dtypes.gathered),
                (self.shard_numel * size, self.numel_padded * size),
            )
            self.gathered = True
            self.use_whole()
            record.write("gather", self)
        else:
            self.use_whole()
        if self.mixed and self.sharded:
            self.low_precision_shard = False  # `post_unshard`
            record.refresh(self)

    def use_whole(self) -> None:
        """`_use_unsharded_flat_param` and `_use_unsharded_views`."""
        self.flat.data = self.whole
        self.in_force = "whole"
        if self.state == "forward":
            self.views = self.make_views()
            self.set_views()
        elif self.state == "backward-pre" and self.use_orig_params and not self.skipped_views:
            if not self.views:
                raise RefusedRunError("'NoneType' object has no attribute 'data'")
            self.set_views()

    def make_views(self) -> list[torch.Tensor]:
        """`_get_unflat_views_aligned`, `_unaligned`: one split, and one view for each parameter."""
        with torch.enable_grad():
            pieces = torch.split(self.flat, list(self.contents.numels), dim=0)
            kept = [
                piece
                for piece, is_padding in zip(pieces, self.contents.is_padding, strict=True)
                if not is_padding
            ]
            return [
                piece.view(shape) for piece, shape in zip(kept, self.contents.shapes, strict=True)
            ]

    def set_views(self) -> None:
        """Put the views where the modules had their parameters."""
        self.views_in_modules = True
        for place, view in zip(self.contents.places, self.views, strict=True):
            self.set_view(place, view)
        for place, index in self.contents.shared:
            self.set_view(place, self.views[index])

    def set_view(self, place: Place, view: torch.Tensor) -> None:
        """Set one attribute, as `_safe_setattr_tensor_or_param` does."""
        if hasattr(place.module, place.name):
            delattr(place.module, place.name)
        setattr(place.module, place.name, view)
        if self.use_orig_params and self.state == "forward":
            place.module._parameters[place.name] = view  # type: ignore[assignment]  # as torch

    def drop_views(self) -> None:
        """Forget the views, in the modules too."""
        self.views = []
        for place in self.contents.all_places:
            vars(place.module).pop(place.name, None)
            if self.use_orig_params:
                place.module._parameters.pop(place.name, None)

    def replace(self, flat: nn.Parameter) -> None:
        """Take the originals out of the modules, as the constructor does unless it keeps them."""
        if self.use_orig_params:
            return
        pieces = torch.empty(0, dtype=flat.dtype, device="meta")
        for place in self.contents.all_places:
            if hasattr(place.module, place.name):
                delattr(place.module, place.name)
            setattr(place.module, place.name, pieces)

    def reshard(self, record: Record, *, free: bool) -> None:
        """`_reshard` in _runtime_utils: `reshard` and `post_reshard` of the handle."""
        in_forward = self.state == "forward"
        skip = (
            self.use_orig_params
            and torch.is_grad_enabled()
            and in_forward
            and self.sharded
            and self.strategy not in RESHARD_AFTER_FORWARD
        )
        self.flat.data = self.shard
        self.in_force = "shard"
        if self.use_orig_params:
            self.skipped_views = skip
            self.views_in_modules = skip
            if not skip and self.state == "backward-post" and self.sharded:
                self.views = []
            if in_forward and not skip:
                grad = self.flat.grad
                if grad is not None and self.sharded and grad.numel() == self.contents.numel:
                    self.originals.take_whole(grad)
                else:
                    self.originals.take_shard(grad if self.saved is None else self.saved)
        if free:
            if not self.gathered:
                raise RefusedRunError(
                    "Expects storage to be allocated: the unit was freed while its backward still"
                    " ran, as several reentrant checkpoints in one unit make it"
                )
            self.gathered = False
            record.write("free", self)
        if self.mixed and not self.sharded:
            self.low_precision_shard = False
        record.refresh(self)
        self.prefetched = False
