"""Find a Python that every pinned package works with."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass

SUPPORTED = ("3.11", "3.12")

_ASK = """
import sys
print(sys.implementation.name, "%d.%d" % sys.version_info[:2], sys.executable)
"""


class NoInterpreterError(Exception):
    """Neither this Python nor any on PATH is one of SUPPORTED."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that was seen to run."""

    path: str
    version: str  # "3.11"


@functools.cache
def find_interpreter() -> Interpreter:
    """Return the Python that runs this if it fits, else the first on PATH that does.

    Raises NoInterpreterError, with what to do, when there is none.
    """
    candidates = (sys.executable, *(f"python{v}" for v in SUPPORTED), "python3", "python")
    for candidate in candidates:
        interpreter = ask_interpreter(candidate)
        if interpreter and interpreter.version in SUPPORTED:
            return interpreter
    versions = " or ".join(SUPPORTED)
    names = " nor ".join(f"python{v}" for v in SUPPORTED)
    raise NoInterpreterError(
        f"Python {versions} is needed: this is {sys.version_info[0]}.{sys.version_info[1]}, and "
        f"neither {names} on PATH runs. Install one of them, then run the same command again."
    )


def ask_interpreter(command: str) -> Interpreter | None:
    """Run `command` to learn what it is; None when it is no working CPython.

    Finding the name on PATH is not enough: pyenv puts a shim there for every version it has ever
    seen, and the shim of a version that is not switched on only prints an error.
    """
    try:
        answer = subprocess.run(
            [command, "-c", _ASK], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    implementation, version, path = answer.stdout.split(maxsplit=2)
    return Interpreter(path.strip(), version) if implementation == "cpython" else None
