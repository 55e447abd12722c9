"""A decoder as one rank of 1,024: the plan equals the real FSDP, small and, if asked, whole."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

from fsdp_demo.collectives import count_collectives
from fsdp_demo.layout import read_layout
from fsdp_demo.memory import record_memory
from fsdp_demo.planner import plan
from tests.plan.decoder import read_decoder
from tests.plan.fake_world import fake_world, take_apart

WORLD, RANK = 1024, 1000
RANKS = (0, RANK, WORLD - 1)
WHOLE: dict[str, int] = {}  # as the lesson has it: about seven billion weights
SMALL = {"blocks": 4, "width": 256, "heads": 4, "hidden": 688, "words": 1000}
LESSON = read_decoder()


def predict(size: dict[str, int], strategy: str) -> tuple[Any, ...]:
    with torch.device("meta"):
        model = LESSON["Decoder"](**size)
    made = plan(
        model,
        world=WORLD,
        rank=RANK,
        policy=LESSON["per_big_block"],
        strategy=strategy,
        example=LESSON["TOKENS"],
    )
    return made.layout(RANKS), made.collectives, made.memory


def measure(
    size: dict[str, int], strategy: str, mode: contextlib.AbstractContextManager[object]
) -> tuple[Any, ...]:
    with fake_world(WORLD, RANK), mode:
        model = FullyShardedDataParallel(
            LESSON["Decoder"](**size),
            auto_wrap_policy=LESSON["per_big_block"],
            sharding_strategy=ShardingStrategy[strategy],
            device_id=torch.device("cpu"),
        )
        tokens = torch.zeros(1, 16, dtype=torch.long)
        with count_collectives(model) as collectives, record_memory(model) as memory:
            model(tokens).sum().backward()
        layout = read_layout(model, RANKS)
        take_apart(model)
    return layout, tuple(collectives), tuple(memory)


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_small_decoder(strategy: str) -> None:
    """With real tensors."""
    assert predict(SMALL, strategy) == measure(SMALL, strategy, contextlib.nullcontext())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_whole_decoder(strategy: str, request: pytest.FixtureRequest) -> None:
    """6.7 billion weights, on tensors without numbers: `--thorough` only."""
    if not request.config.getoption("--thorough", default=False):
        pytest.skip("takes half a minute: --thorough")
    planned = predict(WHOLE, strategy)
    assert planned[0].unit("").flat_parameter.numel == 262_148_096
    assert planned == measure(WHOLE, strategy, FakeTensorMode())
