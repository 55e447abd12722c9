"""Under `torchrun`: this process is a rank already, so the worker runs here."""

from __future__ import annotations

import gc
import importlib
import os
from typing import TYPE_CHECKING, Any

from fsdp_demo.launch.errors import SpawnError
from fsdp_demo.launch.group import SEED, seed_all
from fsdp_demo.launch.nested import inside_rank

if TYPE_CHECKING:
    from collections.abc import Callable


class Rendezvous:
    """torchrun's store, and how many groups have been made through it."""

    store: Any = None
    count = 0


def run_as_this_rank(worker: Callable[..., Any], world: int, args: tuple[Any, ...]) -> list[Any]:
    """Run the worker as the rank that `torchrun` made this process; return every rank's value.

    Each call makes a group of its own and destroys it. They share torchrun's store, so each has a
    prefix there: without one, a second group would read the first one's addresses and wait for
    ever.
    """
    dist: Any = importlib.import_module("torch.distributed")
    torch: Any = importlib.import_module("torch")
    launched = int(os.environ["WORLD_SIZE"])
    if world != launched:
        raise SpawnError(f"spawn asks for {world} ranks, but torchrun has started {launched}")
    if dist.is_initialized():
        raise SpawnError("this process has a default process group already: spawn makes its own")
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    if Rendezvous.store is None:
        Rendezvous.store = next(dist.rendezvous("env://"))[0]
    Rendezvous.count += 1
    store = dist.PrefixStore(f"fsdp_demo.spawn/{Rendezvous.count}", Rendezvous.store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    try:
        seed_all(SEED + rank)
        with inside_rank():
            value = worker(rank, world, *args)
        values: list[Any] = [None] * world
        dist.all_gather_object(values, value)
    finally:
        # A module that still holds the group when it is destroyed can abort this process later.
        gc.collect()
        dist.destroy_process_group()
    return values
