"""The plan equals real ranks, which talk over gloo."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]  # ships no types
import pytest

from fsdp_demo import spawn
from tests.plan.fake_world import measure, predict
from tests.plan.random_models import Case, Node, Weight

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCKS = Node(
    "A",
    (Weight((6, 6)), Weight((6,))),
    (
        Node("B", (Weight((3, 6)), Weight((6, 3)), Weight((6,)))),
        Node("B", (Weight((4, 6)), Weight((6, 4)), Weight((6,))), tied=5),
        Node("B", (Weight((5, 6)), Weight((6, 5)), Weight((6,))), (Node("C", (Weight((7,)),)),)),
    ),
)
FROZEN = Node(
    "A", (Weight((4,)),), (Node("B", (Weight((9,), frozen=True),)), Node("B", (Weight(),)))
)
REENTRANT = Node(
    "A",
    (Weight((6,)),),
    (Node("B", (Weight((3, 6)),)), Node("B", (Weight((3, 5)),), checkpoint="reentrant")),
)


def list_cases(world: int) -> list[Case]:
    """Return the cases of a world; a hybrid strategy gets each mesh that it has."""
    common: dict[str, Any] = {"world": world, "policy": ("module", "B")}
    cases = [
        Case(BLOCKS, **common, strategy=strategy, use_orig_params=original)
        for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")
        for original in (False, True)
        if not (original and strategy == "FULL_SHARD")
    ]
    cases += [
        Case(BLOCKS, **common, strategy=strategy, mesh=(replicas, world // replicas))
        for strategy in ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
        for replicas in range(1, world + 1)
        if world % replicas == 0
    ]
    cases += [
        Case(BLOCKS, **{**common, "policy": ("size", 30)}),
        Case(BLOCKS, **{**common, "policy": ("none",)}),
        Case(BLOCKS, **common, prefetch="BACKWARD_POST"),
        Case(BLOCKS, **common, prefetch=None, forward_prefetch=True, steps={"steps": 2}),
        Case(BLOCKS, **common, param_dtype="bfloat16", reduce_dtype="float32"),
        Case(BLOCKS, **common, ignore=("0", "3")),
        Case(BLOCKS, **common, steps={"forwards": 2}),
        Case(BLOCKS, **common, steps={"accumulate": 2, "no_sync": True}),
        Case(BLOCKS, **common, steps={"backward": False}),
        Case(FROZEN, **common, use_orig_params=True, strategy="SHARD_GRAD_OP", steps={"steps": 2}),
        Case(REENTRANT, **common, input_grad=True),
    ]
    return cases


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_plan_equals_gloo(world: int) -> None:
    """On each rank: layout, collectives and memory."""
    cases = list_cases(world)

    def worker(rank: int, world: int, cases: list[Case]) -> list[Any]:
        return [measure(dataclasses.replace(case, world=world, rank=rank)) for case in cases]

    measured = _run_ranks(worker, world, cases)
    for rank, found in enumerate(measured):
        for case, (layout, ran) in zip(cases, found, strict=True):
            planned = predict(_of_rank(case, rank))
            assert planned.layout() == layout, case
            assert planned.unknown is None, (planned.unknown, case)
            collectives, memory = ran
            assert planned.collectives == tuple(collectives), case
            assert planned.memory == tuple(memory), case


def _of_rank(case: Case, rank: int) -> Case:
    return dataclasses.replace(case, rank=rank)


def _run_ranks(worker: Callable[..., Any], world: int, cases: list[Case]) -> list[Any]:
    """Run it on real ranks, which can't import a test module by its name."""
    for name in ("tests.plan.random_models", "tests.plan.fake_world", worker.__module__):
        cloudpickle.register_pickle_by_value(sys.modules[name])
    return spawn(worker, world, cases, timeout_s=100.0)
