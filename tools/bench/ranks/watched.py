"""Time a step of the lessons' program with nothing watching it, and under each instrument.

    python -m tools.bench.ranks.watched ROUNDS

Prints, for each strategy and instrument, the seconds of each step on rank 0, as JSON. The steps
take turns inside each rank.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from fsdp_demo import spawn
from fsdp_demo.collectives import count_collectives
from fsdp_demo.memory import record_memory

if TYPE_CHECKING:
    from collections.abc import Callable

WORLD = 4
STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")


class Block(nn.Module):
    """The block of lessons 3 and 4."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)
        self.relu = nn.ReLU()
        self.second = nn.Linear(6, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers in order."""
        output: torch.Tensor = self.second(self.relu(self.first(x)))
        return output


WATCHES: dict[str, Callable[[nn.Module], contextlib.AbstractContextManager[Any]]] = {
    "plain": contextlib.nullcontext,
    "count": count_collectives,
    "record": record_memory,
}


def time_steps(rank: int, world: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each step, by strategy and instrument."""
    del rank, world
    seconds = defaultdict(list)
    for strategy in STRATEGIES:
        torch.manual_seed(0)
        model = FullyShardedDataParallel(
            nn.Sequential(Block(), Block(), Block()),
            auto_wrap_policy=ModuleWrapPolicy({Block}),
            sharding_strategy=ShardingStrategy[strategy],
            device_id=torch.device("cpu"),
        )
        for turn in range(rounds + 1):
            for name, watch in WATCHES.items():
                dist.barrier()
                start = time.perf_counter()
                with watch(model):
                    model(torch.ones(2, 6)).sum().backward()
                if turn:  # the first one initializes FSDP
                    seconds[f"{strategy} {name}"].append(time.perf_counter() - start)
    return dict(seconds)


if __name__ == "__main__":
    print(json.dumps(spawn(time_steps, WORLD, int(sys.argv[1]), timeout_s=100)[0]))
