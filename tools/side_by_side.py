"""Run commands at the same time, and show what they print one after the other."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

END_S = 5.0  # for a command to clear up after an interrupt, which a terminal sends to all


def run_side_by_side(commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[int]:
    """Run all commands; return their exit codes.

    The first one's output is shown as it comes; each other's as a whole, in order, when the
    commands before it have ended. None outlives the call.
    """
    codes = []
    started: list[tuple[subprocess.Popen[bytes], IO[bytes] | None]] = []
    with contextlib.ExitStack() as files:
        try:
            for command in commands:
                output: IO[bytes] | None = None
                if started:
                    output = files.enter_context(tempfile.TemporaryFile())
                started.append((_start(command, env, output), output))
            for process, output in started:
                codes.append(process.wait())
                if output is not None:
                    output.seek(0)
                    sys.stdout.flush()
                    shutil.copyfileobj(output, sys.stdout.buffer)
                    sys.stdout.flush()
        finally:
            _end([process for process, _ in started])
    return codes


def _start(
    command: Sequence[str], env: Mapping[str, str], output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    if output is None:
        return subprocess.Popen(command, env=env)
    return subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait a little for those that still run, then kill them."""
    deadline = time.monotonic() + END_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.wait()
