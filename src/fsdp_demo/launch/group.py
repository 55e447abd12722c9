"""In a rank: its generators, and its process group from beginning to end."""

from __future__ import annotations

import importlib
import os
import random
import sys
from datetime import timedelta
from typing import Any

SEED = 0
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def seed_all(seed: int) -> None:
    """Seed torch's, numpy's and Python's generators.

    Forked ranks inherit one state: left alone, they would all draw the same numbers.
    """
    importlib.import_module("torch").manual_seed(seed)
    importlib.import_module("numpy").random.seed(seed % 2**32)
    random.seed(seed)


def join_group(rank: int, world: int, folder: str, timeout_s: float) -> None:
    """Make the gloo group of all ranks, through a file in `folder`.

    A `TCPStore` would listen on every interface, and a fixed port collide with another build's. A
    file listens on nothing; gloo's own sockets stay on loopback, whatever this machine's name
    resolves to.
    """
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")
    # Here only: exported by the caller, it would break a real run on several machines.
    os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
    torch.set_num_threads(1)
    # Longer than the run's own limit, so that the run's is the one that speaks.
    timeout = timedelta(seconds=2 * timeout_s + 60)
    # As `init_method="file://…"` would make it, but for a path that may hold "#" or "?".
    store = dist.PrefixStore("default_pg", dist.FileStore(f"{folder}/rendezvous", world))
    store.set_timeout(timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timeout)
    if "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        # torch read it when it was imported, which may have been before it was set.
        dist.set_debug_level_from_env()
