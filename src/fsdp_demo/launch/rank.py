"""What runs in a rank, from the fork to its end.

`prepare` is called before, in the process that ranks are forked from.

The order matters. Output is caught at the level of file descriptors, so that what C++ prints, and
what a child process prints, is caught too. The worker is loaded before the group is made: when it
can't be loaded no peer waits for this rank. The worker is called when every rank has joined: one
that ends at once would take its connections from peers that still make theirs. Once it has
reported, a rank stays as it is, its sockets open, until every rank has: a socket that closes early
is what makes an innocent peer say "Connection closed by peer". It leaves by `os._exit`, since
gloo's threads can abort a process whose interpreter is being torn down.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import linecache
import mmap
import os
import pickle
import resource
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import types
from typing import Any, NoReturn

from fsdp_demo.launch.faults import describe_exception
from fsdp_demo.launch.group import SEED, join_group, seed_all
from fsdp_demo.launch.last_words import leave_last_words
from fsdp_demo.launch.nested import inside_rank
from fsdp_demo.launch.record import install_recorder
from fsdp_demo.launch.traces import ASK

UNBUFFERED = 2  # C's _IONBF


def prepare() -> None:
    """Do ahead what is the same in every rank."""
    install_recorder()
    seed_all(SEED)  # the first time takes ten times as long


class Report:
    """This rank's line to the parent.

    It says twice where it has come to, and waits for the others each time: when it has joined the
    group, and when its worker has ended.
    """

    def __init__(self, control: int, trace: int) -> None:
        self.sock = socket.socket(fileno=control)
        self.trace = trace
        self.current_step = ""
        self.exit = os._exit
        os.write(trace, f"@main 0x{threading.main_thread().ident or 0:016x}\n".encode())
        faulthandler.enable(file=trace, all_threads=True)
        faulthandler.register(ASK, file=trace, all_threads=True)

    def step(self, name: str) -> None:
        """Note what happens next, where the parent finds it if this rank can't say so any more."""
        self.current_step = name
        os.write(self.trace, f"@step {name}\n".encode())

    def send(self, **fields: object) -> None:
        """Say where this rank has come to; what was printed before is in its file by then."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):  # a worker may have closed or replaced them
                stream.flush()
        blob = pickle.dumps({"at": time.monotonic(), **fields})
        self.sock.sendall(struct.pack("!Q", len(blob)) + blob)

    def wait(self) -> None:
        """Wait until every rank has come so far, or the parent ends this one."""
        with contextlib.suppress(OSError):
            self.sock.recv(1)

    def leave(self, status: int) -> NoReturn:
        """End this process, without the interpreter's own end and with its group as it is.

        A gloo thread may need the GIL once more to drop the last collective's tensors. Under
        `destroy_process_group` it can wait for ever (see `torchrun.py`), and in an interpreter that
        is finalizing it aborts the process. Here nothing waits for it.
        """
        self.exit(status)


def run_rank(rank: int, setup: dict[str, Any], fds: list[int], work_at: int) -> NoReturn:
    """Run the worker as rank `rank`, report, wait for the others, leave.

    Args:
        rank: this rank.
        setup: what `job.Job.start` put together.
        fds: as in `side.Side.fds`, then the file that holds the worker.
        work_at: where in that file the worker begins.
    """
    control, stdout, stderr, trace, log, payload = fds
    report = Report(control, trace)
    catch_output(stdout, stderr)
    world = setup["world"]
    pid = os.getpid()
    try:
        report.step("loading the worker")
        enter_setup(setup)
        worker, args = load_work(payload, work_at)
        report.step("joining the process group")
        join_group(rank, world, setup["folder"], setup["timeout_s"])
        report.send(kind="joined")
        install_recorder().log = log
        leave_last_words(trace)
        seed_all(SEED + rank)
        report.wait()
        report.step("running the worker")
        with inside_rank():
            value = worker(rank, world, *args)
        leave_forked(pid)
        report.step("pickling the return value")
        blob = importlib.import_module("cloudpickle").dumps(value)
    except BaseException as error:  # noqa: BLE001  # a SystemExit or KeyboardInterrupt is a fault as well
        leave_forked(pid, error)
        report.send(kind="raised", step=report.current_step, **describe_exception(error))
        report.wait()
        report.leave(1)
    report.send(kind="returned", value=blob)
    report.wait()
    report.leave(0)


def leave_forked(pid: int, error: BaseException | None = None) -> None:
    """End a process that the worker forked as Python would: it is no rank, and reports nothing."""
    if os.getpid() == pid:
        return
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    os._exit(status)


def catch_output(stdout: int, stderr: int) -> None:
    """Send file descriptors 1 and 2, and Python's streams on them, to the rank's two files."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdout, sys.stderr = open_stream(1), open_stream(2)
    # C's and C++'s stream too: into a file they would collect, and a rank's end writes nothing out.
    libc = ctypes.CDLL(None)
    stream = ctypes.c_void_p.in_dll(libc, "__stdoutp" if sys.platform == "darwin" else "stdout")
    libc.setvbuf(stream, None, UNBUFFERED, 0)


def open_stream(fd: int) -> io.TextIOWrapper:
    """Return a text stream that writes at once.

    So half a line is there too when the rank is killed, and Python's lines and C++'s stay in order.
    """
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(
        raw,
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )


def enter_setup(setup: dict[str, Any]) -> None:
    """Take over the caller's environment, folder and cells."""
    os.environ.clear()
    os.environ.update(setup["environ"])
    os.environ["OMP_NUM_THREADS"] = "1"
    os.chdir(setup["cwd"])
    tempfile.tempdir = None  # the server's own folder goes with the server
    sys.argv[:] = setup["argv"]
    for name, lines in setup["cells"].items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    # torch 2.2.2 prints a false alarm when the cycle collector frees a discarded FSDP model; a rank
    # is short-lived, and its memory goes all at once.
    gc.disable()
    # No core file beside the page when a rank crashes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def load_work(payload: int, work_at: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the worker and its arguments from the file that all ranks share.

    Mapped, not read: the ranks share one position in the file, and would read from each other's.
    """
    with mmap.mmap(payload, 0, access=mmap.ACCESS_READ) as shared, memoryview(shared) as whole:
        worker, args = pickle.loads(whole[work_at:])  # noqa: S301  # from our own parent
    os.close(payload)
    # What the caller's script or cells define is looked up in `__main__` when a worker pickles it
    # by name, as all_gather_object does.
    main = types.ModuleType("__main__")
    if getattr(worker, "__module__", None) == "__main__":
        main.__dict__.update(getattr(worker, "__globals__", {}))
    sys.modules["__main__"] = main
    return worker, args
