"""`record_memory` against the layout, the counter and the known peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from fsdp_demo.layout import read_layout
from fsdp_demo.memory import record_memory
from tests.instruments.programs import CASES, Case, build_model, make_batch, run_ranks, wrap_model
from tests.instruments.watched import watch

if TYPE_CHECKING:
    from fsdp_demo.records import FlatParameter, Layout, MemoryEvent

ITEMSIZE = 4


def live_at(timeline: list[MemoryEvent], kind: str, phase: str) -> list[int]:
    """Return how many units are gathered at each event of the kind."""
    return [
        len(event.unsharded) for event in timeline if (event.kind, event.phase) == (kind, phase)
    ]


def record_one_step(rank: int, _world: int, case: Case) -> list[MemoryEvent]:
    model = case.wrap(case.build())
    with record_memory(model) as timeline:
        case.run(model, rank)
    return timeline


@pytest.mark.parametrize(
    ("strategy", "forward", "backward"),
    [
        ("FULL_SHARD", [1, 1, 1], [2, 2, 1]),
        ("SHARD_GRAD_OP", [1, 2, 3], [3, 2, 1]),
        ("NO_SHARD", [0, 0, 0], [0, 0, 0]),
        ("HYBRID_SHARD", [1, 1, 1], [2, 2, 1]),
        ("_HYBRID_SHARD_ZERO2", [1, 2, 3], [3, 2, 1]),
    ],
)
def test_each_strategy_keeps_so_many_units_gathered(
    strategy: str, forward: list[int], backward: list[int]
) -> None:
    """Three blocks and a root that owns nothing, as each forward and each backward begins."""
    timeline = run_ranks(record_one_step, 4, Case(4, strategy=strategy, kind="blocks"))[0]
    assert live_at(timeline, "forward-start", "forward") == forward
    assert live_at(timeline, "backward-start", "backward") == backward
    assert timeline[0].unsharded == timeline[-1].unsharded == ()


def test_the_root_is_not_freed_after_the_forward() -> None:
    """FULL_SHARD frees every other unit there."""
    timeline = run_ranks(record_one_step, 2, Case())[0]
    freed = [event.unit for event in timeline if event.kind == "free" and event.phase == "forward"]
    assert freed == ["blocks.0", "blocks.1", "blocks.2"]
    last = [event for event in timeline if event.phase == "forward"][-1]
    assert (last.kind, last.unit, last.unsharded) == ("forward-end", "", ("",))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bytes_and_events_fit_the_layout_and_the_collectives(case: Case) -> None:
    """Each gather and reduction was a collective; each byte is a number of a known size."""
    for seen in watch(case):
        collectives, timeline, units = seen.collectives, seen.timeline, seen.layout.units
        flats = {unit.name: unit.flat_parameter for unit in units if unit.flat_parameter}
        gathers = [c for c in collectives if c.kind == "all-gather"]
        events = [event for event in timeline if event.kind == "gather"]
        assert [(e.unit, e.phase) for e in events] == [(c.unit, c.phase) for c in gathers]
        first_reductions = [
            c
            for c in collectives
            if c.kind == "reduce-scatter"
            or (c.kind == "all-reduce" and "HYBRID" not in case.strategy)
        ]
        reductions = [event for event in timeline if event.kind == "reduce"]
        assert [e.unit for e in reductions] == [c.unit for c in first_reductions]
        assert [e.unit for e in timeline if e.kind == "reduced"] == [e.unit for e in reductions]
        for event in timeline:
            assert event.unsharded_nbytes == ITEMSIZE * sum(
                flats[unit].numel_padded for unit in event.unsharded
            )
            assert event.shard_nbytes == seen.shard_nbytes
            assert event.nbytes == sum(
                (
                    event.unsharded_nbytes,
                    event.unsharded_grad_nbytes,
                    event.shard_nbytes,
                    event.grad_shard_nbytes,
                )
            )
        for event in reductions:
            check_reduction(case, event, flats[str(event.unit)])
        last = timeline[-1]
        assert last.grad_shard_nbytes == seen.grad_nbytes
        assert last.unsharded_grad_nbytes == 0


def check_reduction(case: Case, event: MemoryEvent, flat: FlatParameter) -> None:
    """The gradient, with a padded copy of it where the sizes differ, is there to be reduced."""
    numel, padded = flat.numel, flat.numel_padded
    if flat.shard_numel == padded:  # NO_SHARD
        assert event.unsharded_grad_nbytes == 0
    else:
        copy = padded if padded > numel else 0
        kept = event.unsharded_grad_nbytes - ITEMSIZE * (numel + copy)
        # `no_sync` keeps the gradients of the units that are not reduced yet.
        assert kept == 0 or (kept > 0 and case.steps == "accumulate_no_sync")


def record_no_sync(rank: int, _world: int) -> tuple[list[MemoryEvent], Layout]:
    model = wrap_model(build_model())
    with record_memory(model) as timeline:
        with model.no_sync():
            model(make_batch(rank)).sum().backward()
        kept = len(timeline)
        model(make_batch(rank)).sum().backward()
    return [timeline[kept - 1], timeline[-1]], read_layout(model)


def test_no_sync_keeps_gradients_of_full_size() -> None:
    """Until a backward outside of it reduces them."""
    (kept, after), layout = run_ranks(record_no_sync, 2)[0]
    flats = [unit.flat_parameter for unit in layout.units if unit.flat_parameter is not None]
    assert (kept.kind, kept.unit) == ("free", "")
    assert kept.unsharded_grad_nbytes == ITEMSIZE * sum(flat.numel for flat in flats)
    assert kept.grad_shard_nbytes == after.unsharded_grad_nbytes == 0
    assert after.grad_shard_nbytes == ITEMSIZE * sum(flat.shard_numel for flat in flats)


def record_one_number(_rank: int, _world: int) -> list[MemoryEvent]:
    """A unit of one number: its shard is as long as the whole."""
    model = wrap_model(torch.nn.Linear(1, 1, bias=False), "none")
    with record_memory(model) as timeline:
        model(torch.ones(1, 1)).sum().backward()
    return timeline


def test_a_shard_as_long_as_the_whole_is_still_told_from_it() -> None:
    """By torch's own record of whether the gradient was reduced."""
    timeline = run_ranks(record_one_number, 2)[0]
    of = {event.kind: event for event in timeline}
    assert (of["free"].unsharded_grad_nbytes, of["free"].grad_shard_nbytes) == (4, 0)
    assert (of["end"].unsharded_grad_nbytes, of["end"].grad_shard_nbytes) == (0, 4)


def test_a_model_without_units_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="Linear has no FSDP unit: wrap it"),
        record_memory(torch.nn.Linear(2, 2)),
    ):
        pass


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_the_timeline_is_the_same_from_run_to_run(strategy: str) -> None:
    """And on every rank, event by event and byte by byte."""
    case = Case(3, strategy=strategy, steps="step_twice")
    first, second = run_ranks(record_one_step, 3, case), run_ranks(record_one_step, 3, case)
    assert first == second
    assert all(timeline == first[0] for timeline in first)
