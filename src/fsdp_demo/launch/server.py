"""The fork server: a process that has imported torch once, and forks a rank on request.

It is what `preload` becomes when torch is imported.

Why not `multiprocessing`'s own fork server: it listens on a named socket, swallows an ImportError
of what it preloads, runs a script's `__main__` again in every rank, and cannot end what a rank left
behind. This one talks over one anonymous socket pair. When that closes, or the parent's process
ends, it ends every rank and everything they started, removes its temporary folder, and leaves.

Requests are frames of an 8-byte length and a pickled tuple:

- ``("fork", job, rank)`` with the rank's file descriptors attached;
- ``("clear", job)``: end whatever still runs and say ``("cleared", job)``.

It says ``("ready",)`` or ``("broken", reason)`` once, then ``("forked", job, rank, pid)`` and
``("ended", job, rank, status)`` for each rank, with `os.waitpid`'s status.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import select
import shutil
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

MAX_FDS = 16
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def read_exactly(sock: socket.socket, nbytes: int) -> bytes:
    """Read `nbytes` bytes; `EOFError` when the peer has gone."""
    chunks = bytearray()
    while len(chunks) < nbytes:
        chunk = sock.recv(nbytes - len(chunks))
        if not chunk:
            raise EOFError
        chunks += chunk
    return bytes(chunks)


def read_request(sock: socket.socket) -> tuple[tuple[Any, ...], list[int]]:
    """Read one frame and the file descriptors that came with its first byte."""
    header, fds, _, _ = socket.recv_fds(sock, 8, MAX_FDS)
    if not header:
        raise EOFError
    header += read_exactly(sock, 8 - len(header))
    request = pickle.loads(read_exactly(sock, struct.unpack("!Q", header)[0]))  # noqa: S301  # from our own parent
    return request, fds


def send(sock: socket.socket, *message: object) -> None:
    """Send one frame."""
    blob = pickle.dumps(message)
    sock.sendall(struct.pack("!Q", len(blob)) + blob)


def prctl(option: int, value: int) -> None:
    """Call Linux's `prctl`; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Server:
    """The ranks that run now, and the two ways out: a request to clear, or the parent's end."""

    def __init__(self, parent: socket.socket, parent_pid: int, folder: str) -> None:
        self.parent = parent
        self.folder = folder
        self.parent_pid = parent_pid
        self.ranks: dict[int, tuple[int, int]] = {}  # pid → (job, rank)
        self.wake_read, self.wake_write = os.pipe()
        for fd in (self.wake_read, self.wake_write):
            os.set_blocking(fd, False)

    def serve(self) -> NoReturn:
        """Answer requests until the parent has gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write)
        watched = [self.parent.fileno(), self.wake_read]
        parent_end = self.watch_parent()
        if parent_end is not None:
            watched.append(parent_end)
        try:
            while True:
                ready, _, _ = select.select(watched, [], [], None if parent_end else 1.0)
                if self.wake_read in ready:
                    os.read(self.wake_read, 4096)
                self.reap()
                if parent_end in ready or os.getppid() != self.parent_pid:
                    break
                if self.parent.fileno() in ready:
                    self.answer()
        except (EOFError, OSError):
            pass  # the parent has gone, or does not listen any more
        self.leave()

    def watch_parent(self) -> int | None:
        """Return a descriptor that is readable once the parent has ended, where the system has one.

        The socket alone isn't enough: a process that the parent forked holds a copy of its end.
        """
        if not hasattr(os, "pidfd_open"):
            return None
        try:
            return os.pidfd_open(self.parent_pid)
        except OSError:
            return None

    def answer(self) -> None:
        """Do what the parent asks."""
        request, fds = read_request(self.parent)
        if request[0] == "fork":
            _, job, rank = request
            try:
                pid = os.fork()
            except OSError as error:  # last words for the parent: see `Client.last_words`
                print(f"rank {rank} can't be forked: {error.strerror}", file=sys.stderr, flush=True)
                raise
            if pid == 0:
                self.become_rank(rank, fds)
            for fd in fds:
                os.close(fd)
            self.ranks[pid] = (job, rank)
            send(self.parent, "forked", job, rank, pid)
        elif request[0] == "clear":
            self.clear()
            send(self.parent, "cleared", request[1])

    def reap(self) -> None:
        """Collect ended children, and tell of each that was a rank."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.ranks:
                job, rank = self.ranks.pop(pid)
                # Whatever it started in its own session goes with it.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                send(self.parent, "ended", job, rank, status)

    def clear(self) -> None:
        """End all ranks and their descendants.

        A descendant that left its rank's session becomes this process's child when its parent ends
        (on Linux, where this process is a subreaper), so the loop ends when no child is left.
        """
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            for pid in list(self.ranks):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            for pid in children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                time.sleep(0.002)
            elif pid in self.ranks:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                del self.ranks[pid]
        self.ranks.clear()

    def leave(self) -> NoReturn:
        """End everything this process is answerable for, then this process."""
        with contextlib.suppress(OSError):
            self.parent.close()
        self.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)

    def become_rank(self, rank: int, fds: list[int]) -> NoReturn:
        """Leave the server's life behind and run one rank in this forked process."""
        control, payload = fds[0], fds[-1]
        leave = os._exit  # the rank's own may fail, where its worker has closed the trace
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.parent.close()
            os.close(self.wake_read)
            os.close(self.wake_write)
            nbytes = struct.unpack("!Q", os.pread(payload, 8, 0))[0]
            setup = pickle.loads(os.pread(payload, nbytes, 8))  # noqa: S301  # from our own parent
            work_at = 8 + nbytes
            sys.path[:] = setup["sys_path"]
            importlib.invalidate_caches()
            from fsdp_demo.launch.rank import run_rank  # noqa: PLC0415  # as prepared, or to say why not

            run_rank(rank, setup, fds, work_at)
        except BaseException:  # noqa: BLE001  # nothing may leave a forked child by another way
            error = sys.exc_info()[1]
            link = {"type": type(error).__name__, "message": str(error), "frames": [], "link": ""}
            report = {
                "kind": "raised",
                "step": "loading the launcher",
                "at": time.monotonic(),
                "chain": [link],
            }
            blob = pickle.dumps(report)
            with contextlib.suppress(OSError), socket.socket(fileno=control) as sock:
                sock.sendall(struct.pack("!Q", len(blob)) + blob)
                sock.recv(1)
        finally:
            leave(1)


def children() -> list[int]:
    """Return this process's children (Linux; elsewhere none are known)."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in text.split()]
