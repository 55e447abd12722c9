"""Workers for the tests of the launcher: well-behaved, and in every way at fault.

A module of its own, since a rank imports it by name, as it would a reader's own module.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import psutil  # type: ignore[import-untyped]  # ships no types
import torch
import torch.distributed as dist

from fsdp_demo import spawn


def add_up(rank: int, world: int, start: float = 0.0) -> float:
    """Return the sum over all ranks of `start` plus the rank."""
    numbers = torch.full((world,), start + rank)
    dist.all_reduce(numbers)
    return float(numbers[0])


def leave_at_once(rank: int, world: int) -> None:
    """Have rank 1 end itself before it does anything else."""
    if rank == 1:
        os._exit(3)
    print(f"rank {rank} begins")
    add_up(rank, world)


def facts(rank: int, world: int) -> dict[str, object]:
    """Return what a rank finds around it."""
    dist.barrier()
    listening = [
        connection.laddr.ip
        for connection in psutil.Process().net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    return {
        "rank": dist.get_rank() == rank,
        "world": dist.get_world_size() == world,
        "backend": dist.get_backend(),
        "threads": torch.get_num_threads(),
        "interface": os.environ["GLOO_SOCKET_IFNAME"],
        "cwd": str(Path.cwd()),
        "variable": os.environ.get("A_READERS_VARIABLE"),
        "listening": sorted(set(listening)),
        "private_mb": psutil.Process().memory_full_info().uss / 1e6,
    }


def draw(rank: int, world: int) -> tuple[float, float, float]:  # noqa: ARG001  # spawn's form
    """Return one number from each generator, unseeded by the worker."""
    return float(torch.rand(())), float(np.random.rand()), random.random()  # noqa: NPY002, S311  # the global ones are the subject


def late_first(rank: int, world: int) -> None:
    """Print in reverse order of rank."""
    time.sleep(0.1 * (world - rank))
    print(f"rank {rank} of {world}")
    sys.stderr.write(f"a remark of {rank}\n")


def come_late(rank: int, world: int, late: int) -> None:  # noqa: ARG001  # spawn's form
    """One rank begins late, and returns late."""
    time.sleep(0.2 * (rank == late))
    dist.barrier()
    time.sleep(0.2 * (rank == late))


def send_on(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Rank 0 sends, rank 1 receives."""
    if rank == 0:
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.ones(1), 0)


def print_oddly(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Print from Python, from C and C++, from a child process, no UTF-8, and half a line."""
    libc, cpp = ctypes.CDLL(None), ctypes.CDLL("libstdc++.so.6")
    libc.puts(b"from C")
    print(f"python {rank}")
    write = getattr(cpp, "_ZNSo5writeEPKcl")  # noqa: B009  # std::cout.write, by its C++ name
    write(ctypes.byref(ctypes.c_char.in_dll(cpp, "_ZSt4cout")), b"from C++\n", 9)
    subprocess.run([sys.executable, "-S", "-c", "print('from a child')"], check=True)
    os.write(1, b"\xff half a line")


def measure(rank: int, world: int, large: bytes) -> int:  # noqa: ARG001  # spawn's form
    """Return a number that stands for the argument."""
    return zlib.crc32(large)


class Point:
    """A class that only this module knows."""

    def __init__(self, x: int) -> None:
        self.x = x


def gather_points(rank: int, world: int) -> list[int]:
    """Gather objects of a class of this module."""
    points: list[Point | None] = [None] * world
    dist.all_gather_object(points, Point(rank))
    return [point.x for point in points if point is not None]


def misbehave(rank: int, world: int, how: str) -> object:  # noqa: ARG001, C901, PLR0912  # one branch a fault, on purpose
    """Do the one thing on rank 1, while the others all-reduce twice."""
    print(f"rank {rank} begins")
    numbers = torch.ones(3)
    no_tensor: Any = "no tensor"
    layers: dict[str, str] = {}
    if rank == 1:
        if how == "raise before":
            raise ValueError("no such layer")
        if how == "sys.exit":
            sys.exit(3)
        if how == "os._exit":
            os._exit(3)
        if how == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "killed from outside":
            dist.barrier()
            subprocess.run(["kill", "-9", str(os.getpid())], check=False)
            time.sleep(5)
        if how == "SIGSEGV":
            ctypes.string_at(0)
        if how == "out of memory":
            limit = psutil.Process().memory_info().vms + 10**8
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            torch.empty(10**9)
        if how == "loop":
            loop_for_ever()
        if how == "return early":
            return "early"
        if how == "unpicklable":
            return (number for number in [1])
        if how == "raise inside":
            dist.all_reduce(no_tensor)
        if how == "flood":
            for _ in range(1000):
                os.write(1, b"x" * 99_999 + b"\n")
        if how == "caught":
            try:
                layers["encoder"]
            except KeyError as error:
                raise RuntimeError("first line\nsecond line") from error
    if how == "killed from outside":
        dist.barrier()
    if how == "unpicklable":
        return None
    dist.all_reduce(numbers)
    if how == "raise after" and rank == 1:
        raise ValueError("after the first")
    if how == "skip the last" and rank == 1:
        return None
    dist.all_reduce(numbers)
    return None


def leave_others(rank: int, world: int, how: str) -> None:  # noqa: ARG001  # spawn's form
    """Rank 1 leaves the group in the middle: rank 0's connection closes, and that is an error too.

    What rank 1 does next is the fault, and comes after rank 0's error.
    """
    if rank == 1:
        try:
            if how == "returns":
                return
            raise ValueError("no such layer")
        finally:
            dist.destroy_process_group()
            time.sleep(1.5 if how == "raises late" else 0.2)
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        if how == "another is led to":
            raise KeyError("weights") from error
        if how == "another exits":
            time.sleep(0.3)
            os._exit(1)
        raise


class Unloadable:
    """Can be pickled, and not be loaded."""

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """Load it as a number that is none."""
        return int, ("many",)


def return_unloadable(rank: int, world: int) -> object:  # noqa: ARG001  # spawn's form
    """Return, on rank 1, what the caller can't load."""
    return Unloadable() if rank == 1 else None


def abort_at_the_end(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Return, and abort while another rank still runs."""
    if rank == 1:
        threading.Timer(0.2, os.abort).start()
    else:
        time.sleep(1)


def loop_for_ever() -> NoReturn:
    """Never return."""
    while True:
        pass


def all_raise(rank: int, world: int) -> None:  # spawn's form
    """Raise the same on each rank, one after the other."""
    time.sleep(0.05 * (world - rank))
    raise KeyError("weight")


def disagree(rank: int, world: int, how: str) -> None:
    """Issue one collective on the last rank and another on the others."""
    is_odd = rank == world - 1
    four, five = torch.ones(4), torch.ones(5)
    if how == "kind":
        if is_odd:
            dist.all_gather([torch.zeros(4) for _ in range(world)], four)
        else:
            dist.all_reduce(four)
    elif how == "shape":
        dist.all_reduce(five if is_odd else four)
    elif how == "silent shape":
        dist.broadcast(five if is_odd else four, 0)
    elif how == "dtype":
        dist.all_reduce(four.double() if is_odd else four)
    elif how == "root":
        dist.broadcast(four, 1 if is_odd else 0)
    elif how == "skip a broadcast" and not is_odd:
        dist.broadcast(four, 0)
    elif how == "skip what nobody waits for" and not is_odd:
        dist.all_reduce(four, async_op=True)


def agree(rank: int, world: int) -> float:
    """Issue, in two groups, collectives that rightly differ between ranks."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[rank // 2]
    numbers = torch.ones(2 + rank // 2)  # of another size in each group
    dist.all_reduce(numbers, group=mine)
    if rank < 2:
        dist.all_reduce(numbers, group=mine)
    if rank == 0:
        dist.send(torch.ones(1), 3)
    if rank == 3:
        dist.recv(torch.ones(1), 0)
    gathered = [torch.zeros(1) for _ in range(world)] if rank == 0 else None
    dist.gather(torch.ones(1), gathered, 0)
    dist.all_gather_object([None] * world, "x" * rank)
    return float(numbers[0])


def wait_asynchronously(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Wait for a collective that rank 1 never issues, in a line of one's own."""
    if rank != 1:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()


def cross_sends(rank: int, world: int) -> None:
    """Each rank waits to receive; none sends."""
    dist.recv(torch.ones(1), (rank + 1) % world)


def take_time(rank: int, world: int, how: str) -> None:  # noqa: ARG001  # spawn's form
    """Take three seconds on rank 0, in a way that is no stall, while the others wait."""
    numbers = torch.ones(1)
    for _ in range(2):
        if rank == 0:
            if how == "sleep":
                time.sleep(2.7)
            elif how == "child":
                subprocess.run(["sleep", "2.7"], check=True)
            elif how == "thread":
                thread = threading.Thread(target=time.sleep, args=(2.7,))
                thread.start()
                thread.join()
        dist.all_reduce(numbers)
        how = ""


def spawn_inside(rank: int, world: int) -> None:
    """Call spawn in a rank."""
    spawn(add_up, world, rank)


def start_others(rank: int, world: int) -> list[int]:
    """Start a thread, a child, and one in a session of its own; return the processes' numbers."""
    threading.Thread(target=time.sleep, args=(1000,)).start()
    ours = subprocess.Popen(["sleep", "1000"])
    far = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    dist.all_reduce(torch.ones(1))
    if world == 3 and rank == 1:
        raise ValueError("with children")
    return [os.getpid(), ours.pid, far.pid]


def close_all(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Have rank 1 close every file and every line to the caller, not knowing whose they are."""
    for fd in range(3, 256) if rank == 1 else ():
        with contextlib.suppress(OSError):
            is_file = stat.S_ISREG(os.fstat(fd).st_mode)
            if is_file or socket.socket(fileno=os.dup(fd)).family == socket.AF_UNIX:
                os.close(fd)


def fork_one(rank: int, world: int, how: str) -> object:  # noqa: ARG001  # spawn's form
    """Fork a process that leaves the worker in its own way; return its exit code."""
    pid = os.fork()
    if pid == 0:
        if how == "raises":
            raise ValueError("in the child")
        if how == "exits":
            sys.exit(3)
        return "the child's value"
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def break_stdout(rank: int, world: int) -> int:  # noqa: ARG001  # spawn's form
    """Leave a stdout that ends whoever flushes it."""

    class Broken:
        def flush(self) -> None:
            sys.exit(4)

    sys.stdout = Broken()
    return rank


def reduce_nothing(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Issue a collective of a tensor without data, which torch 2.2.2 can't do and says so."""
    with contextlib.suppress(NotImplementedError):
        dist.all_reduce(torch.ones(2, device="meta"))


def find_rank() -> int:
    """Return which rank this is, before it has a group: while it loads its worker."""
    frame = sys._getframe()  # noqa: SLF001  # there is no other way to ask
    while frame.f_code.co_name != "run_rank" and frame.f_back is not None:
        frame = frame.f_back
    return int(frame.f_locals["rank"])


def hold_up() -> None:
    """Have rank 1 never come back from joining the group."""
    if find_rank() == 1:
        join = dist.init_process_group

        def join_and_stay(*args: Any, **more: Any) -> None:  # noqa: ANN401  # whatever torch takes
            join(*args, **more)
            time.sleep(1000)

        dist.init_process_group = join_and_stay


class HoldsUp:
    """An argument that holds up its rank."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """Call `hold_up` where it is loaded."""
        return hold_up, ()


def take(rank: int, world: int, given: object) -> None:
    """Do nothing."""


def use_sigusr1(rank: int, world: int) -> list[int]:  # noqa: ARG001  # spawn's form
    """Handle a signal as a training script may; rank 0 keeps the others waiting for a while."""
    heard: list[int] = []
    signal.signal(signal.SIGUSR1, lambda signum, _: heard.append(signum))
    if rank == 0:
        time.sleep(2.5)
    dist.barrier()
    return heard


class UnspeakableError(Exception):
    """Ends whoever asks what it says."""

    def __str__(self) -> str:
        """End the process."""
        raise SystemExit("not to be said")


def raise_unspeakable(rank: int, world: int) -> None:  # noqa: ARG001  # spawn's form
    """Raise it in rank 1."""
    if rank == 1:
        raise UnspeakableError
