"""Under `torchrun`: this process is a rank already, so the worker runs here."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import time
from typing import TYPE_CHECKING, Any

from fsdp_demo.launch.errors import SpawnError
from fsdp_demo.launch.group import SEED, seed_all
from fsdp_demo.launch.nested import inside_rank

if TYPE_CHECKING:
    from collections.abc import Callable


GRACE_S = 0.1  # a thread that is ready to run waits for a core far less, on a busy machine too


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
        # Through the store: a collective would be one more for `_leave_group` to wait for.
        store.set(f"value/{rank}", pickle.dumps(value))
        values = [pickle.loads(store.get(f"value/{other}")) for other in range(world)]  # noqa: S301  # from our own ranks
    finally:
        _leave_group(dist)
    return values


def _leave_group(dist: Any) -> None:  # noqa: ANN401  # torch.distributed
    """Destroy the default group for torch, and keep its C++ object while this process runs.

    A gloo thread drops the tensors of a collective after the collective has ended, and needs the
    GIL for it. `destroy_process_group` runs the object's destructor, which waits for the threads,
    with the GIL held (the last reference is a local of its own): a thread that comes late and the
    destructor wait for each other for ever. Seen on torch 2.2.2 in 2 of 54 runs on a busy machine;
    and where the object was merely kept, the late thread aborted 2 of 84 processes at their end.
    Python can't await the thread, so it gets time, and the object is kept.
    """
    time.sleep(GRACE_S)  # the GIL is free meanwhile
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))
    # A module that still holds the group when it is destroyed can abort this process later.
    gc.collect()
    dist.destroy_process_group()
