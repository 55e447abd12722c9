"""What a lesson's script imports in place of `fsdp_demo`: `spawn` by `torch.multiprocessing`.

It is copied beside the scripts, and does what any script of this kind has to do: form the group,
keep what each rank prints apart, hand back what the ranks return.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def spawn(worker: Callable[..., Any], world: int, *args: Any) -> list[Any]:  # noqa: ANN401  # whatever the worker takes
    """Run `worker(rank, world, *args)` on `world` new processes; return what the ranks return."""
    os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(be_rank, args=(world, folder, worker, args), nprocs=world)  # type: ignore[attr-defined,no-untyped-call]
        values = []
        for rank in range(world):
            print(Path(folder, f"stdout-{rank}").read_text(encoding="utf-8"), end="")
            values.append(pickle.loads(Path(folder, f"value-{rank}").read_bytes()))  # noqa: S301  # from our own ranks
    return values


def be_rank(
    rank: int, world: int, folder: str, worker: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """Be one rank, from its group to its return value."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world
    )
    with (
        Path(folder, f"stdout-{rank}").open("w", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
    ):
        value = worker(rank, world, *args)
    Path(folder, f"value-{rank}").write_bytes(pickle.dumps(value))
    if world > 1:  # else there is nobody to wait for
        dist.barrier()
    gc.disable()  # torch 2.2.2 may print a false alarm when the collector frees an FSDP model
    os._exit(0)  # gloo's threads can abort an interpreter that is being torn down


def fact(name: str, value: object) -> None:
    """Print a fact in the words that a page's pin has for it."""
    print(f"fact {name}: {value}")


def show_last(value: object) -> None:
    """Print a cell's last value, as a notebook shows it."""
    if value is not None:
        print(repr(value))


display = show_last  # what a notebook offers its cells
