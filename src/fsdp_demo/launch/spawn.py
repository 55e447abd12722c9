"""`spawn`: run a worker on real ranks."""

from __future__ import annotations

import inspect
import math
import os
from typing import TYPE_CHECKING, Any

from fsdp_demo.launch import nested
from fsdp_demo.launch.errors import SpawnError
from fsdp_demo.launch.words import clean, first_line

if TYPE_CHECKING:
    from collections.abc import Callable


def spawn(worker: Callable[..., Any], world: int, *args: Any, timeout_s: float = 60.0) -> list[Any]:  # noqa: ANN401  # whatever the worker takes
    """Run `worker(rank, world, *args)` on `world` ranks; return what the workers return.

    Each rank is a process with its gloo process group ready (made through a file, on loopback
    only), one intra-op thread, and the generators of torch, numpy and Python seeded with the rank,
    so that ranks draw different numbers, the same ones in each run. Ranks are forked from a process
    that has imported torch once; this process need not import it. What they print is shown when all
    have ended: stdout in rank order, as it is, then stderr, each line with its rank in front.
    Python's cycle collector is off in a rank.

    A run ends with the first fault: a rank that raises, exits, dies, prints more than 10 MB,
    returns what can't be pickled, or runs past `timeout_s`; ranks that wait for each other; ranks
    that issue different collectives. All ranks are ended then, and whatever they started. What
    can't be noticed: two collectives of one kind and shape in another order, and another reduce
    operation; they give wrong numbers, as they do under any launcher. On macOS ranks that wait for
    each other are found at `timeout_s` only.

    Under `torchrun` the same call runs the worker in this process, as the rank that `torchrun` made
    it; every rank gets the whole list. Output and faults are `torchrun`'s business there.

    Args:
        worker: a function of this process: of a module, a script or a notebook cell.
        world: the number of ranks.
        *args: passed on to each rank, by value.
        timeout_s: for the whole run, in seconds.

    Returns:
        The workers' return values, in rank order; each must be picklable.

    Raises:
        RankError: the fault of a rank, named; its own traceback stands below the summary.
        SpawnError: the call makes no sense, or the ranks can't be started.
    """
    check_call(worker, world, args, timeout_s)
    # A rank imports this module too, and needs none of these.
    from fsdp_demo.launch.events import note  # noqa: PLC0415  # as said
    from fsdp_demo.launch.job import run_job  # noqa: PLC0415  # as said
    from fsdp_demo.launch.ship import pickle_work  # noqa: PLC0415  # as said
    from fsdp_demo.launch.torchrun import run_as_this_rank  # noqa: PLC0415  # as said

    if "TORCHELASTIC_RUN_ID" in os.environ:  # as torch.distributed.is_torchelastic_launched()
        return run_as_this_rank(worker, world, args)
    note("pickle")
    try:
        work = pickle_work(worker, args)
    except Exception as error:  # noqa: BLE001  # pickling runs anybody's __reduce__
        reason = first_line(clean(f"{type(error).__name__}: {error}"))
        raise SpawnError(
            f"{name_of(worker)} or its arguments can't be pickled for the ranks: {reason}"
        ) from None
    return run_job(work, world, timeout_s)


def check_call(worker: object, world: object, args: tuple[object, ...], timeout_s: object) -> None:
    """Raise `SpawnError` for a call that can't work, before any rank is started."""
    if nested.is_inside_rank():
        raise SpawnError("spawn was called inside a rank: a rank can't start ranks of its own")
    if not callable(worker):
        raise SpawnError(
            f"worker must be a function worker(rank, world, …), not {clean(repr(worker))}"
        )
    if not isinstance(world, int) or isinstance(world, bool) or world < 1:
        raise SpawnError(f"world must be the number of ranks, 1 or more, not {world!r}")
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < math.inf:
        raise SpawnError(f"timeout_s must be a number of seconds above 0, not {timeout_s!r}")
    try:
        signature = inspect.signature(worker)
    except (TypeError, ValueError):
        return  # written in C: the ranks will see
    try:
        signature.bind(0, world, *args)
    except TypeError as error:
        raise SpawnError(
            f"{name_of(worker)}(rank, world, …) does not fit its call: {error}"
        ) from None
    if inspect.iscoroutinefunction(worker) or inspect.isgeneratorfunction(worker):
        raise SpawnError(
            f"{name_of(worker)} must be a plain function, not a coroutine or generator"
        )


def name_of(worker: object) -> str:
    """Return how to speak of a worker."""
    return str(getattr(worker, "__qualname__", type(worker).__name__))
