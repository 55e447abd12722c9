"""The counter: a dispatch mode that writes down each collective as it is issued."""

from __future__ import annotations

import contextlib
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from fsdp_demo.collectives.operators import (
    C10D,
    FUNCTIONAL,
    METHODS,
    Signature,
    find_group,
    list_ranks,
    list_tensors,
)
from fsdp_demo.collectives.owner import Owners
from fsdp_demo.patches import replaced
from fsdp_demo.phases import PhaseWatch
from fsdp_demo.records import Collective
from fsdp_demo.units import name_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch import nn

    from fsdp_demo.records import Kind


@contextlib.contextmanager
def count_collectives(model: nn.Module) -> Iterator[list[Collective]]:
    """Write down each collective that this rank issues inside the `with` block, in order.

    The list grows as the block runs.  It works where torch dispatches operators, so it does not
    depend on the Python function that a version of torch calls.  Collectives of the forward, of the
    backward and of anything else in the block are seen, FSDP's own or not, and those of threads
    that the block starts; not those of a thread that ran before.

    Args:
        model: the model whose forward and whose units are meant: wrapped by FSDP, by `fully_shard`
            or not at all.  Wrap it before; a unit made inside the block is not known by name.

    Yields:
        The list of `fsdp_demo.records.Collective`.

    """
    counter = _Counter(model)
    with contextlib.ExitStack() as stack:
        stack.enter_context(counter.phases.watch(model))
        for owner, name in _list_python_methods():
            stack.enter_context(replaced(owner, name, counter.listen))
        # A dispatch mode is one thread's.
        stack.enter_context(replaced(threading.Thread, "start", counter.follow))
        stack.callback(counter.end)
        stack.enter_context(counter)
        yield counter.record


def _list_python_methods() -> list[tuple[type, str]]:
    """Return the collectives that Python process groups implement, as (class, method name).

    torch 2.2.2's fake process group is a Python class: `torch.distributed` calls its methods
    directly, and no operator is dispatched (torch/testing/_internal/distributed/fake_pg.py).
    """
    found, classes = [], list(dist.ProcessGroup.__subclasses__())
    while classes:
        owner = classes.pop()
        classes += owner.__subclasses__()
        own = (name for name in METHODS if isinstance(vars(owner).get(name), FunctionType))
        found += [(owner, name) for name in own]
    return found


class _Counter(TorchDispatchMode):  # type: ignore[misc,unused-ignore]  # untyped where torch isn't
    """Sees every operator of the block; writes down those that are collectives."""

    supports_higher_order_operators = True  # they are passed on like any operator

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare newer torch the import of its compiler at the first operator, 1.5 s.

        Its wrapper only matters where `torch.compile` traces into the mode.
        """
        return False

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.model = model
        self.ended = False  # a thread that the block started may go on after it
        self.first = self  # the counter of the block's own thread
        self.record: list[Collective] = []
        self.phases = PhaseWatch()
        self.owners = Owners(model)
        self.ranks: dict[tuple[int, ...], tuple[int, ...]] = {}  # one tuple for each group
        self.inside = False  # a collective that another one is made of is not counted again

    def end(self) -> None:
        """Write down nothing more, in no thread."""
        self.ended = True

    def follow(self, start: Callable[[threading.Thread], None]) -> Callable[..., None]:
        """Return `threading.Thread.start`, made to count in the threads that it starts."""

        def starting(thread: threading.Thread) -> None:
            run = thread.run

            def counted_run() -> None:
                with self.fork():
                    run()

            thread.run = counted_run  # type: ignore[method-assign]
            start(thread)

        return starting

    def fork(self) -> _Counter:
        """Return a counter for another thread, which writes into the same record."""
        other = _Counter(self.model)
        other.first, other.record = self.first, self.record
        other.phases, other.owners, other.ranks = self.phases, self.owners, self.ranks
        return other

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  # an operator's result
        kwargs = kwargs or {}
        if any(owner.__name__ == "DTensor" for owner in types):
            return NotImplemented  # DTensor then calls the operators on its local tensors
        namespace, _, name = func.name().partition("::")  # as in c10d::allgather_
        if namespace == "c10d":
            return self.run(C10D.get(name), func, args, kwargs)
        result = func(*args, **kwargs)
        if namespace in ("_c10d_functional", "c10d_functional") and name in FUNCTIONAL:
            self.write(FUNCTIONAL[name], args[0], result, find_group(func, args, kwargs))
        return result

    def listen(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a process group's method `method`, made to write down its calls."""
        signature = METHODS[method.__name__]

        def listening(group: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as `method`
            if signature.kind == "barrier":
                args_seen: tuple[Any, ...] = (None, group)
            else:
                args_seen = (*args[: signature.group], group)
            return self.run(signature, method, (group, *args), kwargs, args_seen)

        return listening

    def run(
        self,
        signature: Signature | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        args_seen: tuple[Any, ...] | None = None,
    ) -> Any:  # noqa: ANN401  # the function's result
        """Write down a collective, then run it."""
        if signature is None or self.inside:
            return function(*args, **kwargs)
        seen = args if args_seen is None else args_seen
        inputs = () if signature.inputs is None else seen[signature.inputs]
        outputs = () if signature.outputs is None else seen[signature.outputs]
        self.write(signature.kind, inputs, outputs, seen[signature.group])
        self.inside = True
        try:
            return function(*args, **kwargs)
        finally:
            self.inside = False

    def write(self, kind: Kind, inputs: Any, outputs: Any, group: Any) -> None:  # noqa: ANN401
        """Append one record; `inputs` and `outputs` are tensors or nested lists of them."""
        if self.first.ended:
            return
        given, taken = list(list_tensors(inputs)), list(list_tensors(outputs))
        ranks = list_ranks(group)
        dtypes = dict.fromkeys(name_dtype(tensor.dtype) for tensor in given or taken)
        self.record.append(
            Collective(
                kind=kind,
                phase=self.phases.phase,
                unit=self.owners.find(),
                ranks=self.ranks.setdefault(ranks, ranks),
                dtype=", ".join(dtypes),
                nbytes_in=_sum_nbytes(given),
                nbytes_out=_sum_nbytes(taken),
            )
        )


def _sum_nbytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
