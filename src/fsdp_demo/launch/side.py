"""What the parent holds of one rank: its files, its line, what it said, how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import tempfile
from typing import IO, Any

from fsdp_demo.launch.client import pop_frame
from fsdp_demo.launch.events import note
from fsdp_demo.launch.mismatch import Issued, read_log
from fsdp_demo.launch.traces import Trace, read_trace


def nameless_file() -> IO[bytes]:
    """Return a temporary file without a name, so that nothing is left however this process ends.

    Each write goes to its end: what a worker's child processes print must not overwrite the
    worker's lines.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115  # its owner closes it
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_APPEND)
    return file


class Side:
    """One rank, from the parent's side."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.stdout = nameless_file()
        self.stderr = nameless_file()
        self.trace_file = nameless_file()
        self.log_file = nameless_file()
        self.sock, self.theirs = socket.socketpair()
        self.sock.setblocking(False)  # noqa: FBT003  # the method's own form
        self.buffer = bytearray()
        self.pid: int | None = None
        self.has_joined = False  # the process group
        self.report: dict[str, Any] | None = None
        self.status: int | None = None  # as `os.waitpid` gives it

    @property
    def fds(self) -> list[int]:
        """What the rank gets, in the order in which `rank.run_rank` takes it."""
        files = (self.stdout, self.stderr, self.trace_file, self.log_file)
        return [self.theirs.fileno(), *(file.fileno() for file in files)]

    @property
    def is_live(self) -> bool:
        """Whether it has neither reported nor ended."""
        return self.report is None and self.status is None

    @property
    def has_returned(self) -> bool:
        """Whether its worker has returned a value."""
        return self.report is not None and self.report["kind"] == "returned"

    @property
    def is_at_fault(self) -> bool:
        """Whether it has raised, or ended without a report."""
        return not self.is_live and not self.has_returned

    def hear(self) -> bool:
        """Read what the rank said; return whether it can say more."""
        try:
            chunk = self.sock.recv(1 << 20)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.buffer += chunk
        # Two at once from a rank that has joined and fails before its worker begins.
        while (message := pop_frame(self.buffer)) is not None:
            if message["kind"] == "joined":
                self.has_joined = True
            else:
                self.report = message
                note("report", self.rank, message["kind"])
        return bool(chunk)

    def go_on(self) -> None:
        """Tell the rank that every rank has come as far as it has."""
        with contextlib.suppress(OSError):  # it may have ended already
            self.sock.send(b"g")

    def kill(self) -> None:
        """End the rank's process group, where the server can't do it any more."""
        if self.pid is not None and self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def read_trace(self, start: int = 0) -> Trace:
        """Return what faulthandler wrote for it."""
        return read_trace(self.trace_file, start)

    def trace_size(self) -> int:
        """Return how much of it there is, in bytes."""
        return os.fstat(self.trace_file.fileno()).st_size

    def log_size(self) -> int:
        """Return the size of its record of collectives, in bytes."""
        return os.fstat(self.log_file.fileno()).st_size

    def read_log(self) -> list[Issued]:
        """Return the collectives it has issued."""
        return read_log(self.log_file)

    def close(self) -> None:
        """Let go of all files."""
        for file in (self.stdout, self.stderr, self.trace_file, self.log_file):
            file.close()
        self.sock.close()
        self.theirs.close()
