"""Start what is timed: whole commands, and programs that stay warm between requests."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]

# Both would make ranks compile or import what a reader's do not.
_LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
CLOSE_LIMIT_S = 3.0
_TOLD_LINES = 8  # of what a failed command printed


class BenchFault(Exception):  # noqa: N818  # it is shown as a sentence, not as an error's name
    """A measurement could not be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command that ended well."""

    seconds: float
    stdout: str


def make_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the process environment that everything here is started with."""
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return kept | dict(extra or {})


def run_timed(
    command: Sequence[str],
    *,
    timeout_s: float,
    folder: Path = ROOT,
    extra: Mapping[str, str] | None = None,
) -> Run:
    """Run a command to its end, and say how long it took.

    Raises:
        BenchFault: it failed, or took longer than `timeout_s`; all it started has been ended.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=make_environment(extra),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=timeout_s)
            seconds = time.perf_counter() - start
        except subprocess.TimeoutExpired:
            raise BenchFault(f"{_name(command)} did not end within {timeout_s:.0f} s") from None
        finally:
            end_session(process)
        stdout.seek(0)
        stderr.seek(0)
        said = stdout.read().decode(errors="replace")
        if status != 0:
            lines = (said + stderr.read().decode(errors="replace")).strip().splitlines()
            told = "\n  ".join(lines[-_TOLD_LINES:])
            raise BenchFault(f"{_name(command)} failed with status {status}:\n  {told}")
    return Run(seconds, said)


class WarmProgram:
    """A program that answers requests, one JSON line each, and keeps what it has imported.

    Its first line says whether it is ready. Use it in a `with` block: its end ends the program.
    """

    def __init__(self, command: Sequence[str], *, timeout_s: float) -> None:
        self.command = command
        self.timeout_s = timeout_s
        self.buffer = b""
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=make_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.selector = selectors.DefaultSelector()
        assert self.process.stdout is not None  # noqa: S101  # for mypy
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        """Return this program, which may still be importing."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and all that it started."""
        assert self.process.stdin is not None  # noqa: S101  # for mypy
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=CLOSE_LIMIT_S)
        end_session(self.process)
        self.selector.close()
        assert self.process.stdout is not None  # noqa: S101  # for mypy
        self.process.stdout.close()

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            BenchFault: the program has ended, does not answer, or answers that it can't.
        """
        assert self.process.stdin is not None  # noqa: S101  # for mypy
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise BenchFault(f"{_name(self.command)} has ended") from None
        return self.hear()

    def hear(self) -> dict[str, Any]:
        """Return the next line that the program says.

        Raises:
            BenchFault: as `ask`.
        """
        deadline = time.monotonic() + self.timeout_s
        assert self.process.stdout is not None  # noqa: S101  # for mypy
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0.0, deadline - time.monotonic())):
                limit = f"{self.timeout_s:.0f} s"
                raise BenchFault(f"{_name(self.command)} did not answer within {limit}")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise BenchFault(f"{_name(self.command)} has ended")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchFault(str(answer["error"]))
        return answer


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and whatever is left of that session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def find_free_port() -> int:
    """Return a port of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _name(command: Sequence[str]) -> str:
    """Name a command without the folder its program lies in."""
    return " ".join([Path(command[0]).name, *command[1:]])
