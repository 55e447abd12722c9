"""In a rank: a record of every collective it issues, so that ranks that disagree can be named.

What gloo does when ranks disagree depends on how: another collective hangs, another size aborts the
process from a thread of gloo's own, and a broadcast of another size, or a collective that a rank
skips and nobody waits for, ends well with wrong numbers. So each rank notes what it issues, and
the parent compares (see `mismatch`).

The record is taken in torch's dispatcher, at the key `BackendSelect`, which every call passes once:
below autograd and below any `TorchDispatchMode` of the worker's, above gloo. Nothing in
`torch.distributed` is replaced, and no collective is added (as `TORCH_DISTRIBUTED_DEBUG=DETAIL`
would), so what a lesson counts or prints is what torch does. It costs some 0.05 ms for each
collective.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from fsdp_demo.launch.frames import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_RECORDS = 100_000

# The dispatcher's names and torch.distributed's own.
COLLECTIVES = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "allgather_": "all_gather",
    "_allgather_base_": "all_gather_into_tensor",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "barrier": "barrier",
    "monitored_barrier_": "monitored_barrier",
}
# Ranks may rightly give these other shapes.
UNEVEN = {
    "gather_": "gather",
    "scatter_": "scatter",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single",
}
# Between two ranks: noted as a sign of life, not compared.
POINT_TO_POINT = {"send": "send", "recv_": "recv", "recv_any_source_": "recv"}
SHAPELESS = {"barrier", "monitored_barrier_"}
ROOT_WORD = {"broadcast_": "from", "scatter_": "from", "reduce_": "to", "gather_": "to"}
INPUTS = ("input_tensors", "input_tensor", "input_list", "inputs", "tensors")


@cache
def install_recorder() -> Recorder:
    """Return this process's recorder; a rank has it from the process that it was forked from."""
    recorder = Recorder()
    recorder.install()
    return recorder


class Recorder:
    """Writes one line for each collective to the rank's log, once it has one."""

    def __init__(self) -> None:
        self.log: int | None = None
        self.count = 0
        self.torch: Any = importlib.import_module("torch")
        self.dist: Any = importlib.import_module("torch.distributed")
        self.library = self.torch.library.Library("c10d", "IMPL")

    def install(self) -> None:
        """Have every collective of this process pass here."""
        for name in (*COLLECTIVES, *UNEVEN, *POINT_TO_POINT):
            packet = getattr(self.torch.ops.c10d, name, None)
            if packet is not None:
                self.library.impl(name, self.recording(name, packet.default), "BackendSelect")

    def recording(self, name: str, op: Any) -> Callable[..., Any]:  # noqa: ANN401  # torch is untyped here
        """Return a kernel that notes the call and passes it on."""
        names = [argument.name for argument in op._schema.arguments]  # noqa: SLF001  # no public name for it
        group_at = names.index("process_group")
        shown_at = None
        if name in COLLECTIVES and name not in SHAPELESS:
            shown_at = next((names.index(given) for given in INPUTS if given in names), None)
        root_at = names.index("root_rank") if name in ROOT_WORD else None
        word = {**COLLECTIVES, **UNEVEN, **POINT_TO_POINT}[name]
        compared = "" if name in POINT_TO_POINT else "="
        call_below = op._op_dk  # noqa: SLF001  # the only way past this kernel, on 2.2.2 and 2.13.0 alike

        def kernel(*args: Any) -> Any:  # noqa: ANN401  # whatever the collective takes and gives
            if self.log is not None and self.count < MAX_RECORDS:
                self.count += 1
                what = (
                    ""
                    if shown_at is None
                    else f" of {describe_tensors(args[shown_at], self.torch.Tensor)}"
                )
                if root_at is not None:
                    what += f" {ROOT_WORD[name]} rank {args[root_at]}"
                self.write(self.log, args[group_at], compared, word, what)
            return call_below(self.dispatch_key(args), *args)

        return kernel

    def dispatch_key(self, args: tuple[Any, ...]) -> Any:  # noqa: ANN401  # torch is untyped here
        """Return the key of the kernel that does the work: that of the tensors' device."""
        device = next(tensor.device.type for tensor in tensors_in(args, self.torch.Tensor))
        key = "Meta" if device == "meta" else device.upper()
        return getattr(self.torch._C.DispatchKey, key)  # noqa: SLF001  # no public name for it

    def write(self, log: int, boxed_group: Any, compared: str, word: str, what: str) -> None:  # noqa: ANN401  # torch is untyped here
        """Write one line: the group and its ranks, the collective, and the reader's own line."""
        group = self.dist.ProcessGroup.unbox(boxed_group)
        ranks = ",".join(map(str, self.dist.get_process_group_ranks(group)))
        frame = sys._getframe(2)  # noqa: SLF001  # far cheaper than inspect's, once for each collective
        innermost = frame
        while frame.f_back is not None and not is_own(frame.f_code.co_filename):
            frame = frame.f_back
        if not is_own(frame.f_code.co_filename):
            frame = innermost
        place = f"{frame.f_lineno}\t{frame.f_code.co_name}\t{frame.f_code.co_filename}"
        line = f"{group.group_name}\t{ranks}\t{compared}\t{word}\t{what}\t{place}\n"
        os.write(log, line.encode())


def tensors_in(item: Any, kind: type) -> Iterator[Any]:  # noqa: ANN401  # a tensor, or lists of tensors, or neither
    """Yield the tensors among a collective's arguments."""
    if isinstance(item, list | tuple):
        for part in item:
            yield from tensors_in(part, kind)
    elif isinstance(item, kind):
        yield item


def describe_tensors(item: Any, kind: type) -> str:  # noqa: ANN401  # as above
    """Return shapes and dtypes, as in "(4,) float32"; of several the same, how many."""
    texts = [
        f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
        for tensor in tensors_in(item, kind)
    ]
    counted = [(text, texts.count(text)) for text in dict.fromkeys(texts)]
    return ", ".join(text if count == 1 else f"{count} of {text}" for text, count in counted)
