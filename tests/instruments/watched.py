"""Run each program once with every instrument on, and once without; keep what all of them saw."""

# ruff: noqa: SLF001 - what a gather fills is private
# ruff: noqa: ANN401 - what stands in for a function of torch takes and returns what it does

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

from fsdp_demo.collectives import count_collectives
from fsdp_demo.equality import Differences, compare_with_plain
from fsdp_demo.layout import read_layout
from fsdp_demo.memory import record_memory
from fsdp_demo.units import find_units
from tests.instruments.programs import Case, make_batch, run_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.records import Collective, Layout, MemoryEvent

# The entry points that FSDP calls on either version, and the kind each stands for.
ENTRY_POINTS = {
    "all_gather": "all-gather",
    "all_gather_into_tensor": "all-gather",
    "all_gather_single": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "reduce_scatter_single": "reduce-scatter",
    "all_reduce": "all-reduce",
}


@contextlib.contextmanager
def patch_entry_points(model: nn.Module, phase: list[str]) -> Iterator[list[tuple[Any, ...]]]:
    """Write (kind, phase, unit, bytes in, bytes out, group size) down at torch's own functions.

    The unit is found without the stack: a gather's by the storage that it fills, a reduction's by
    its bytes, which differ from unit to unit.
    """
    seen: list[tuple[Any, ...]] = []
    units = [unit for unit in find_units(model) if unit.handle is not None]
    flat = {unit.name: unit.flat_parameter for unit in read_layout(model, ranks=()).units}

    def find_gathered(tensor: torch.Tensor) -> str:
        pointer = tensor.untyped_storage().data_ptr()
        return next(
            unit.name
            for unit in units
            if unit.handle.flat_param._full_param_padded.untyped_storage().data_ptr() == pointer
        )

    def find_reduced(kind: str, numel: int) -> str:
        size = "shard_numel" if kind == "all-reduce" else "numel_padded"
        return {getattr(part, size): name for name, part in flat.items() if part}[numel]

    def calling(name: str, original: Any, *args: Any, **kwargs: Any) -> Any:
        out = args[0] if isinstance(args[0], list) else [args[0]]
        given = args[0] if ENTRY_POINTS[name] == "all-reduce" else args[1]
        group = kwargs.get("group", args[2] if len(args) > 2 else None)
        kind = ENTRY_POINTS[name]
        unit = find_gathered(out[0]) if kind == "all-gather" else find_reduced(kind, given.numel())
        nbytes_out = 4 * sum(tensor.numel() for tensor in out)
        seen.append(
            (kind, phase[0], unit, 4 * given.numel(), nbytes_out, dist.get_world_size(group))
        )
        return original(*args, **kwargs)

    with contextlib.ExitStack() as stack:
        for name in ENTRY_POINTS:
            if hasattr(dist, name):
                patched = functools.partial(calling, name, getattr(dist, name))
                stack.enter_context(mock.patch.object(dist, name, patched))
        yield seen


class Watched(NamedTuple):
    """What one rank saw of a program."""

    entry_points: list[tuple[Any, ...]]
    collectives: list[Collective]
    timeline: list[MemoryEvent]
    layout: Layout
    bits: list[list[str]]  # outputs, parameters and gradients
    plain_bits: list[list[str]]  # the same, of a run that nothing watched
    grad_nbytes: int
    shard_nbytes: int
    differences: Differences | None  # from the plain model; of programs of one step


@functools.cache
def watch(case: Case) -> list[Watched]:
    """Return what each rank saw; each program runs once for all tests."""
    return run_ranks(watch_here, case.world, case)


def watch_here(rank: int, world: int, case: Case) -> Watched:
    """Run the program in this rank, first with nothing watching."""
    model = case.wrap(case.build())
    plain_bits = list_bits(model, case.run(model, rank))
    model = case.wrap(case.build())
    layout = read_layout(model)
    with (
        mark_phases(model) as phase,
        patch_entry_points(model, phase) as seen,
        count_collectives(model) as collectives,
        record_memory(model) as timeline,
    ):
        outputs = case.run(model, rank)
    flats = [unit.handle.flat_param for unit in find_units(model) if unit.handle is not None]
    grads = [flat.grad for flat in flats if flat.grad is not None]
    return Watched(
        entry_points=seen,
        collectives=collectives,
        timeline=timeline,
        layout=layout,
        bits=list_bits(model, outputs),
        plain_bits=plain_bits,
        grad_nbytes=sum(4 * grad.numel() for grad in grads),
        shard_nbytes=sum(4 * flat.numel() for flat in flats),
        differences=compare(case, world) if case.steps == "step_once" else None,
    )


def compare(case: Case, world: int) -> Differences:
    """Compare a step with the plain model's."""
    batches = [make_batch(each).requires_grad_(bool(case.checkpoint)) for each in range(world)]
    return compare_with_plain(case.build, case.wrap, batches)


@contextlib.contextmanager
def mark_phases(model: nn.Module) -> Iterator[list[str]]:
    """Keep the phase in a list of one, set around the calls themselves."""
    phase = ["outside"]

    def marking(name: str, original: Any, *args: Any, **kwargs: Any) -> Any:
        phase[0] = name
        result = original(*args, **kwargs)
        phase[0] = "outside"
        return result

    forward = functools.partial(marking, "forward", model.forward)
    original = torch.Tensor.backward

    def backward(*args: Any, **kwargs: Any) -> None:
        marking("backward", original, *args, **kwargs)

    with (
        mock.patch.object(model, "forward", forward),
        mock.patch.object(torch.Tensor, "backward", backward),
    ):
        yield phase


def list_bits(model: nn.Module, outputs: list[torch.Tensor]) -> list[list[str]]:
    """Return the bits of outputs, parameters and gradients."""
    flats = [unit.handle.flat_param for unit in find_units(model) if unit.handle is not None]
    grads = [flat.grad for flat in flats if flat.grad is not None]
    tensors = [*outputs, *(flat.detach() for flat in flats), *grads]
    return [[number.hex() for number in tensor.flatten().tolist()] for tensor in tensors]
