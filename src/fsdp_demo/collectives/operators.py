"""What each collective operator of torch is, and where its tensors and its group are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.records import Kind


class Signature(NamedTuple):
    """A collective, and the positions of its arguments."""

    kind: Kind
    outputs: int | None
    inputs: int | None
    group: int


def _apart(kind: Kind) -> Signature:
    return Signature(kind, outputs=0, inputs=1, group=2)


def _in_place(kind: Kind) -> Signature:
    return Signature(kind, outputs=0, inputs=0, group=1)


# The operators of the namespace `c10d`, which `torch.distributed`'s functions end in; schemas in
# torch/csrc/distributed/c10d/Ops.cpp.  Without the last underscore, they are the methods of a
# process group, which take the same tensors at the same places.
C10D: dict[str, Signature] = {
    "allgather_": _apart("all-gather"),
    "allgather_coalesced_": _apart("all-gather"),
    "allgather_into_tensor_coalesced_": _apart("all-gather"),
    "_allgather_base_": _apart("all-gather"),
    "reduce_scatter_": _apart("reduce-scatter"),
    "reduce_scatter_tensor_coalesced_": _apart("reduce-scatter"),
    "_reduce_scatter_base_": _apart("reduce-scatter"),
    "allreduce_": _in_place("all-reduce"),
    "allreduce_coalesced_": _in_place("all-reduce"),
    "broadcast_": _in_place("broadcast"),
    "reduce_": _in_place("reduce"),
    "gather_": _apart("gather"),
    "scatter_": _apart("scatter"),
    "alltoall_": _apart("all-to-all"),
    "alltoall_base_": _apart("all-to-all"),
    "send": Signature("send", outputs=None, inputs=0, group=1),
    "recv_": Signature("receive", outputs=0, inputs=None, group=1),
    "recv_any_source_": Signature("receive", outputs=0, inputs=None, group=1),
    "barrier": Signature("barrier", outputs=None, inputs=None, group=1),
    "monitored_barrier_": Signature("barrier", outputs=None, inputs=None, group=1),
}

METHODS = {name.removesuffix("_"): signature for name, signature in C10D.items()}

# The namespaces `_c10d_functional` and, older, `c10d_functional`: what DTensor calls.  The first
# argument is the input, the result the output; the group is a name, or the list of its ranks.
FUNCTIONAL: dict[str, Kind] = {
    "all_gather_into_tensor": "all-gather",
    "all_gather_into_tensor_coalesced": "all-gather",
    "all_gather_into_tensor_out": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "reduce_scatter_tensor_coalesced": "reduce-scatter",
    "reduce_scatter_tensor_out": "reduce-scatter",
    "all_reduce": "all-reduce",
    "all_reduce_": "all-reduce",
    "all_reduce_coalesced": "all-reduce",
    "all_reduce_coalesced_": "all-reduce",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
    "all_to_all_single": "all-to-all",
}
# Newer torch imports it into `torch.distributed.distributed_c10d`; 2.2.2 has it here alone.
_resolve = _distributed_c10d._resolve_process_group  # type: ignore[attr-defined]  # noqa: SLF001

GROUP_ARGUMENTS = ("group_name", "ranks")


def list_tensors(value: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401  # a tensor, or nested lists
    """Return the tensors in an operator's argument."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from list_tensors(part)


def find_group(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the group argument of a functional collective: a name, a group or a list of ranks."""
    for position, argument in enumerate(func._schema.arguments):  # noqa: SLF001  # no public one
        if argument.name in GROUP_ARGUMENTS:
            return args[position] if position < len(args) else kwargs[argument.name]
    raise TypeError(f"{func} has no argument called {' or '.join(GROUP_ARGUMENTS)}")


def list_ranks(group: Any) -> tuple[int, ...]:  # noqa: ANN401  # the forms differ by operator
    """Return a group's global ranks.

    `group` is a process group, the same boxed as a script object (what `c10d` operators take), its
    name, or the list of ranks itself.
    """
    if isinstance(group, list | tuple):
        return tuple(group)
    if isinstance(group, str):
        group = _resolve(group)
    elif isinstance(group, torch.ScriptObject):
        group = dist.ProcessGroup.unbox(group)
    return tuple(dist.get_process_group_ranks(group))
