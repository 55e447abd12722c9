"""The caller's end of the fork server: start it, ask it for ranks, let it go.

A kernel of a build comes with its server, forked from where torch is imported already (see
`fsdp_demo.warm`); everybody else starts one.
"""

from __future__ import annotations

import atexit
import math
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

from fsdp_demo.launch.errors import SpawnError

SERVER = Path(__file__).with_name("preload.py")
HANDED_SERVER = "_fsdp_demo_handed_server"
START_LIMIT_S = 120.0
CLOSE_LIMIT_S = 6.0


class ServerGoneError(Exception):
    """The server has ended, or doesn't answer."""


class Forked:
    """A server that was forked from this process before it became a kernel."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it has ended; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, as `subprocess.Popen.wait` does."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(SERVER), timeout or 0.0)
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        """Kill it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Client:
    """One fork server, from this process's side."""

    def __init__(
        self,
        process: subprocess.Popen[bytes] | Forked,
        sock: socket.socket,
        folder: str,
        noise: IO[bytes],
    ) -> None:
        self.ready = False
        self.jobs = 0
        self.buffer = bytearray()
        self.process = process
        self.sock = sock
        self.folder = folder
        self.noise = noise  # what it prints, to stdout and stderr

    @classmethod
    def start(cls) -> Client:
        """Start a server."""
        folder = tempfile.mkdtemp(prefix="fsdp-demo-")
        sock, theirs = socket.socketpair()
        noise = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the server
        with theirs:
            arguments = (theirs.fileno(), os.getpid(), folder)
            process = subprocess.Popen(
                # -P: the script's own folder must not be on the path, its modules' names are common
                # ones.
                [sys.executable, "-P", str(SERVER), *map(str, arguments)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=noise,
                start_new_session=True,  # a Ctrl-C in the terminal is for this process alone
                # Set before torch is imported: one intra-op thread, and no pool of threads to fork.
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        return cls(process, sock, folder, noise)

    @classmethod
    def take_over(cls) -> Client | None:
        """Return the server that this kernel came with, if it is one of a build's, and has one.

        The other end is `hand_over_server` in `fsdp_demo/warm/kernel.py`.
        """
        handed: Any = sys.modules.pop(HANDED_SERVER, None)
        if handed is None or handed.owner != os.getpid():
            return None
        return cls(Forked(handed.pid), handed.sock, handed.folder, handed.noise)

    def wait_until_ready(self) -> None:
        """Wait for the server's imports, the first time."""
        if self.ready:
            return
        deadline = time.monotonic() + START_LIMIT_S
        message = self.receive(deadline - time.monotonic())
        if message is None:
            raise ServerGoneError(f"nothing heard of it within {START_LIMIT_S:.0f} s")
        if message[0] == "broken":
            raise SpawnError(f"torch can't be imported for the ranks: {message[1]}")
        self.ready = True
        self.noise.seek(0)
        for line in self.noise.read().decode(errors="replace").splitlines():
            # A broken environment must not be silent.
            print(f"[importing torch] {line}", file=sys.stderr)

    def fork(self, job: int, rank: int, fds: list[int]) -> None:
        """Ask for one rank, which gets `fds`."""
        blob = pickle.dumps(("fork", job, rank))
        try:
            socket.send_fds(self.sock, [struct.pack("!Q", len(blob)) + blob], fds)
        except OSError as error:
            raise ServerGoneError(self.last_words()) from error

    def clear(self, job: int, limit_s: float = 6.0) -> None:
        """End all that still runs, and wait until it has."""
        blob = pickle.dumps(("clear", job))
        try:
            self.sock.sendall(struct.pack("!Q", len(blob)) + blob)
        except OSError as error:
            raise ServerGoneError(self.last_words()) from error
        deadline = time.monotonic() + limit_s
        while True:
            message = self.receive(deadline - time.monotonic())
            if message is None:
                raise ServerGoneError("it did not clear up")
            if message == ("cleared", job):
                return

    def receive(self, limit_s: float) -> tuple[Any, ...] | None:
        """Return the next message, or None when none came within `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while True:
            message = self.pop()
            if message is not None:
                return message
            self.sock.settimeout(max(0.0, deadline - time.monotonic()) or 1e-4)
            try:
                chunk = self.sock.recv(65536)
            except TimeoutError:
                return None
            except OSError as error:
                raise ServerGoneError(self.last_words()) from error
            finally:
                self.sock.settimeout(None)
            if not chunk:
                raise ServerGoneError(self.last_words())
            self.buffer += chunk

    def pop(self) -> tuple[Any, ...] | None:
        """Return a message that has been read already."""
        message: tuple[Any, ...] | None = pop_frame(self.buffer)
        return message

    def last_words(self) -> str:
        """Return the last line that the server printed."""
        self.noise.seek(0)
        lines = self.noise.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """Let the server go: it ends with the socket, and everything it started with it."""
        self.sock.close()
        try:
            self.process.wait(timeout=CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.noise.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # its last act, unless it was killed

    def forget(self) -> None:
        """In a forked copy of the owner: let go of the copied ends; the server is the owner's."""
        self.sock.close()
        self.noise.close()
        self.process.returncode = 0  # not this process's child: nothing to wait for


def pop_frame(buffer: bytearray) -> Any:  # noqa: ANN401  # whatever the other side sent
    """Take one frame off the buffer's front, or return None when none is complete."""
    if len(buffer) < 8:  # noqa: PLR2004  # the length's own bytes
        return None
    end = 8 + struct.unpack("!Q", buffer[:8])[0]
    if len(buffer) < end:
        return None
    message = pickle.loads(bytes(buffer[8:end]))  # noqa: S301  # from our own children
    del buffer[:end]
    return message


class Shared:
    """This process's server, and who may use it."""

    client: Client | None = None
    lock = threading.Lock()  # on having a server
    turn = threading.Lock()  # on using it: one run at a time


def start_server() -> Client:
    """Return this process's server, started if need be; don't wait for its imports."""
    with Shared.lock:
        if Shared.client is not None and Shared.client.process.poll() is not None:
            Shared.client.close()
            Shared.client = None
        if Shared.client is None:
            try:
                Shared.client = Client.take_over() or Client.start()
            except OSError as error:
                raise SpawnError(
                    f"the process that forks the ranks can't be started: {error.strerror}"
                ) from None
        return Shared.client


def discard_server() -> None:
    """End this process's server, if there is one."""
    with Shared.lock:
        if Shared.client is not None:
            Shared.client.close()
            Shared.client = None


def forget_server() -> None:
    """In a child that this process forked: it has no server yet, and no lock is held there."""
    Shared.lock, Shared.turn = threading.Lock(), threading.Lock()
    if Shared.client is not None:
        Shared.client.forget()
        Shared.client = None


atexit.register(discard_server)
os.register_at_fork(after_in_child=forget_server)
