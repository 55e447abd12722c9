"""Let one process at a time do what two must not do at once."""

from __future__ import annotations

import contextlib
import fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def one_at_a_time(lock: Path, doing: str) -> Iterator[int]:
    """Hold `lock` meanwhile; if another holds it, say so and wait. Yields its file descriptor.

    The system frees the lock when its last holder ends, however it ends. A child that is handed the
    descriptor holds it too: if this process is killed, the next one waits for what it left running.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another run is {doing}: waiting for it to end.", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()
