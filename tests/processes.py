"""What tests ask of processes while these come and go."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # ships no types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def wait_for(is_true: Callable[[], bool], limit_s: float = 40.0) -> float:
    """Wait until something is true; return how many seconds it took."""
    begin = time.monotonic()
    while not is_true():
        assert time.monotonic() - begin < limit_s
        time.sleep(0.01)
    return time.monotonic() - begin


def are_gone(processes: Iterable[psutil.Process]) -> bool:
    """Return whether none of these runs; what nobody has collected yet doesn't."""
    return all(map(is_gone, processes))


def is_gone(process: psutil.Process) -> bool:
    """Return whether a process has ended, be it between two questions."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def import_path(*first: str) -> str:
    """Return a PYTHONPATH under which a program imports what this process does, `first` before."""
    return os.pathsep.join(filter(None, [*first, *sys.path]))
