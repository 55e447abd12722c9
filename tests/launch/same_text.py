"""One worker, run by `spawn` and by plain `mp.spawn`, each as a whole script, to compare texts.

``python same_text.py spawn`` and ``python same_text.py mp`` print what the ranks print, in rank
order.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.multiprocessing.spawn import ProcessExitedException
from torch.multiprocessing.spawn import spawn as mp_spawn

from fsdp_demo import spawn
from fsdp_demo.collectives import count_collectives
from fsdp_demo.launch.events import record_events

WORLD = 2
ABORTED = 77  # this script's exit status when a rank aborted at its end
LIMIT_S = 60.0


def worker(rank: int, world: int) -> None:
    """Train one step with FSDP, and print what it made, sent and drew.

    The generators are seeded here: a process that `mp.spawn` starts has other seeds.
    """
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 6)) for _ in range(3)]
    model = FullyShardedDataParallel(
        nn.Sequential(*layers, nn.Linear(6, 3)),
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        device_id=torch.device("cpu"),
    )
    for name, shard in model.named_parameters():
        print(f"rank {rank} of {world}: {name} {tuple(shard.shape)} {shard.sum():.9f}")
    torch.manual_seed(100 + rank)
    np.random.seed(100 + rank)  # noqa: NPY002  # the global one is the subject
    random.seed(100 + rank)
    data = torch.rand(4, 6)
    print(f"rank {rank} drew {data[0].tolist()} {np.random.rand()} {random.random()}")  # noqa: NPY002, S311  # likewise
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with count_collectives(model) as record:
        loss = model(data).square().sum()
        loss.backward()
    print(*record, sep="\n")
    optimizer.step()
    loss = loss.detach()
    total = loss.clone()
    dist.all_reduce(total)
    print(f"rank {rank}: loss {float(loss)!r}, of all {float(total)!r}")
    for shard in model.parameters():
        print(
            shard.detach().flatten()[:4].tolist(), None if shard.grad is None else shard.grad.sum()
        )


def enter(rank: int, folder: str) -> None:
    """Be a rank as tutorials have it; its stdout goes to a file of its own."""
    file = os.open(f"{folder}/{rank}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meet = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=WORLD)
    worker(rank, WORLD)
    sys.stdout.flush()
    # A rank that aborts takes the others with it: each must have printed all by then.
    Path(folder, f"{rank}.done").touch()
    deadline = time.monotonic() + LIMIT_S
    while len(list(Path(folder).glob("*.done"))) < WORLD and time.monotonic() < deadline:
        time.sleep(0.01)
    dist.destroy_process_group()


def run_by_mp() -> int:
    """Run the worker by `mp.spawn`; return this script's exit status."""
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            mp_spawn(enter, (folder,), nprocs=WORLD)
        except ProcessExitedException as error:
            if error.exit_code != -signal.SIGABRT:
                raise
            status = ABORTED
        for rank in range(WORLD):
            sys.stdout.write(Path(folder, f"{rank}.txt").read_text(encoding="utf-8"))
    return status


def run_by_spawn() -> int:
    """Run the worker by `spawn`; return this script's exit status."""
    with record_events() as events:
        spawn(worker, WORLD)
    ends = [event.what for event in events if " ended: " in event.what]
    return 0 if ends == [f"rank {rank} ended: status 0" for rank in range(WORLD)] else ABORTED


if __name__ == "__main__":
    sys.exit({"mp": run_by_mp, "spawn": run_by_spawn}[sys.argv[1]]())
