"""The process that ranks are forked from, until it is ready: it imports torch, once.

It is started by path, so that it is of the same package as its caller, wherever that was found. In
a build it isn't started at all but forked, with torch imported already (see `fsdp_demo.warm`); then
its caller runs this file.

It keeps the code of the moment it started. So of the project it imports the launcher's part in a
rank, and its own, and nothing else: they are as old as the launcher's part in the caller, which
starts its server when it imports the package. Whatever else a worker imports of the project, each
rank imports anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

# What each rank needs: torch, what FSDP imports on first use, and of the library what is imported
# after the fork otherwise.
PRELOADED = (
    "faulthandler",
    "inspect",
    "mmap",
    "resource",
    "numpy",
    "cloudpickle",
    "torch",
    "torch.distributed",
    "torch.distributed.fsdp",
    "torch.distributed.fsdp.wrap",
)
ROOT = str(Path(__file__).parents[2])  # where this package is imported from
HUGE = 2 << 20  # bytes of a huge page, on the machines that this is of use for
MADV_COLLAPSE = 25


def prepare_launcher() -> None:
    """Do what each rank would do first: import the launcher's part there.

    What goes wrong goes wrong again in a rank, which then says what.
    """
    with contextlib.suppress(Exception):
        importlib.import_module("fsdp_demo.launch.rank").prepare()


def gather_pages() -> None:
    """Gather this process's memory in huge pages, where Linux can.

    A fork has an entry to copy for each page, and an end one to drop: some 60,000 once torch is
    imported, most of what a fork takes. A rank that writes to a huge page still copies 4 KiB.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights, _, _, _, *name = line.split()
        if rights != "rw-p" or name not in ([], ["[heap]"]):
            continue
        begin, end = (int(address, 16) for address in span.split("-"))
        begin, end = -(-begin // HUGE) * HUGE, end // HUGE * HUGE
        if begin < end:
            madvise(begin, end - begin, MADV_COLLAPSE)  # a failure leaves the pages as they are


def run(parent: socket.socket, parent_pid: int, folder: str) -> NoReturn:
    """Import torch, say so, and serve the process that holds the other end of `parent`."""
    was_forked = "torch" in sys.modules
    # torch makes a temporary folder when it is imported, and removes it at an end that this process
    # won't have.
    tempfile.tempdir = folder
    # A Ctrl-C is for the parent, which then says "clear".
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.insert(0, ROOT)
    from fsdp_demo.launch.server import (  # noqa: PLC0415  # found by the line above
        PR_SET_CHILD_SUBREAPER,
        Server,
        prctl,
        send,
    )
    from fsdp_demo.launch.traces import ASK  # noqa: PLC0415  # likewise

    signal.signal(ASK, signal.SIG_IGN)  # a rank may not be ready for it yet
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        for name in PRELOADED:
            importlib.import_module(name)
        prepare_launcher()
    except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        with contextlib.suppress(OSError):
            send(parent, "broken", f"{type(error).__name__}: {error}")
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)
    gc.collect()
    gc.freeze()  # a collection in a rank would write to, and so copy, every page of the modules
    if not was_forked:
        gather_pages()
    with contextlib.suppress(OSError):  # the parent may have gone already; `serve` notices
        send(parent, "ready")
    Server(parent, parent_pid, folder).serve()


def main() -> NoReturn:
    """Serve the process that started this one."""
    given = socket.socket(fileno=int(sys.argv[1]))
    parent = given.dup()  # a low number: `select` takes none above 1023
    given.close()
    run(parent, int(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    main()
