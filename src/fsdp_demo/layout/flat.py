"""Read a flat parameter: its sizes, and where parameters and padding lie in it."""

# ruff: noqa: SLF001 - what torch knows of a layout is in private attributes

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from fsdp_demo.records import FlatParameter, Padding, Parameter
from fsdp_demo.units import clean_name, name_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.units import LiveUnit


def read_flat_parameter(live: LiveUnit) -> FlatParameter:
    """Read the attributes that `FlatParameter`'s docstring lists.

    `_padded_unsharded_size` appears only with the first forward (`init_flat_param_attributes`,
    which computes it as here) and never under NO_SHARD.
    """
    handle, flat = live.handle, live.handle.flat_param
    numel = flat._unpadded_unsharded_size.numel()
    shard_numel = flat._sharded_size.numel()
    numel_padded = shard_numel * (handle.world_size if handle.uses_sharded_strategy else 1)
    if hasattr(flat, "_padded_unsharded_size"):
        numel_padded = flat._padded_unsharded_size.numel()
    return FlatParameter(
        numel=numel,
        numel_padded=numel_padded,
        shard_numel=shard_numel,
        dtype=name_dtype(flat.dtype),
        gathered_dtype=name_dtype(handle._fwd_bwd_param_dtype),
        reduce_dtype=name_dtype(handle._reduce_dtype),
        requires_grad=flat.requires_grad,
        parameters=tuple(_read_parameters(live)),
        padding=tuple(_read_padding(handle, numel, numel_padded)),
    )


def _read_parameters(live: LiveUnit) -> list[Parameter]:
    """Read `_fqns`, `_shapes`, `_shared_param_infos` and the offsets of the parameters."""
    flat = live.handle.flat_param
    shared: dict[tuple[str, str], list[str]] = {}
    for info in flat._shared_param_infos:
        first = (info.prim_module_name, info.prim_param_name)
        shared.setdefault(first, []).append(_join(live.name, info.module_name, info.param_name))
    offsets = itertools.compress(
        live.handle._get_flat_param_offsets(), (not mask for mask in flat._is_padding_mask)
    )
    # Newer torch's `flatten_tensors` keeps the strides of a parameter that has others than
    # row-major ones; where it does not record them it flattens row by row.
    strides = getattr(flat, "_strides", itertools.repeat(None))
    originals = flat._params or itertools.repeat(flat)  # kept under use_orig_params=True alone
    return [
        Parameter(
            name=_join(live.name, info.module_name, info.param_name),
            shape=tuple(shape),
            numel=numel,
            requires_grad=original.requires_grad,
            offset=offset,
            strides=None if _lies_by_rows(shape, stride) else tuple(stride),
            shared_names=tuple(shared.get((info.module_name, info.param_name), ())),
        )
        for info, shape, stride, numel, (offset, _), original in zip(
            flat._param_infos,
            flat._shapes,
            strides,
            flat._numels,
            offsets,
            originals,
            strict=False,  # some of them have no end
        )
    ]


def _lies_by_rows(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Whether strides mean row-major order; the stride of a dimension of 1 means nothing."""
    if strides is None:
        return True
    numel = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != numel:
            return False
        numel *= size
    return True


def _read_padding(handle: Any, numel: int, numel_padded: int) -> list[Padding]:  # noqa: ANN401  # torch's
    """Read where padding lies.

    `_init_flat_param_and_metadata` puts tensors of padding among the parameters when
    `use_orig_params=True`: before one for alignment, after the last one for divisibility.  When it
    is False, `_get_shard` pads each shard that is too short.
    """
    flat = handle.flat_param
    padding: list[Padding] = []
    masks = list(flat._is_padding_mask)
    for position, ((start, last), is_padding) in enumerate(
        zip(handle._get_flat_param_offsets(), masks, strict=True)
    ):
        if is_padding:
            at_end = position == len(masks) - 1
            padding.append(Padding(start, last + 1, "right-hand" if at_end else "alignment"))
    if numel_padded > numel:
        padding.append(Padding(numel, numel_padded, "right-hand"))
    return padding


def _join(*names: str) -> str:
    return clean_name(".".join(name for name in names if name))
