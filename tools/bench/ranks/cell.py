"""The cell that every launcher runs: make a tiny model, wrap it, and run one step.

And what a rank needs around it where the launcher does not bring it.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

from tools.bench.private_memory import read_private_nbytes

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
SMAPS = Path("/proc/self/smaps_rollup")


def run_cell(rank: int, world: int, weigh: bool) -> int:  # noqa: FBT001  # spawn's form
    """Wrap two layers, each a unit, and run a forward and a backward.

    Args:
        rank: this rank.
        world: the number of ranks.
        weigh: measure this rank's private memory when all ranks have run the step.

    Returns:
        This rank's private memory in bytes; 0 where it was not weighed.
    """
    del rank, world  # every rank does the same
    torch.manual_seed(0)
    model = FullyShardedDataParallel(
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)),
        auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=8),
        device_id=torch.device("cpu"),
    )
    model(torch.ones(2, 4)).sum().backward()
    if not weigh:
        return 0
    dist.barrier()
    nbytes = read_private_nbytes(SMAPS.read_text(encoding="ascii"))
    dist.barrier()  # while one looks, all are there: a page is private if no other process has it
    return nbytes


def join_group(rank: int, world: int, folder: str) -> None:
    """Form the gloo group as `spawn` does: a file, loopback, one intra-op thread."""
    os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world
    )


def run_alone(rank: int, world: int, folder: str, *, weigh: bool) -> None:
    """Be a whole rank: join, run the cell, note its memory, wait for the others."""
    join_group(rank, world, folder)
    nbytes = run_cell(rank, world, weigh)
    if weigh:
        Path(folder, f"nbytes-{rank}").write_text(str(nbytes), encoding="ascii")
    dist.barrier()  # a rank that leaves early closes its sockets on the others


def leave() -> NoReturn:
    """End this rank at once: the quickest end there is, and gloo's threads can't abort it."""
    os._exit(0)
