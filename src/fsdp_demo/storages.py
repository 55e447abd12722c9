"""The storages in which FSDP keeps a unit's numbers, and their bytes."""

# ruff: noqa: SLF001 - torch keeps its gathered parameters in private attributes

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch


def list_tensors(flat: torch.Tensor, *names: str) -> list[torch.Tensor]:
    """Return those attributes of a flat parameter that are set."""
    tensors = (getattr(flat, name, None) for name in names)
    return [tensor for tensor in tensors if tensor is not None]


def list_gathered(handle: Any) -> list[torch.Tensor]:  # noqa: ANN401  # torch's
    """Return the destinations of the unit's gathers; a freed one has a storage of 0 bytes.

    See `FlatParamHandle._get_padded_unsharded_flat_param`; the second is used outside of
    computation under mixed precision.
    """
    return list_tensors(handle.flat_param, "_full_param_padded", "_full_prec_full_param_padded")


def has_whole_gradient(handle: Any) -> bool:  # noqa: ANN401  # torch's
    """Whether `flat_param.grad` is a gradient of full size, not yet reduced.

    By torch's own record: `_post_backward_hook` sets `_post_backward_called` once autograd has put
    the gradient there, and `_finalize_params` clears it as it puts the shard there, which it does
    not under `no_sync()`.  The sizes would not tell where a shard is as long as the whole.
    """
    return bool(handle.uses_sharded_strategy and handle.flat_param._post_backward_called)


def sum_nbytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the tensors' storages, each storage once."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())
