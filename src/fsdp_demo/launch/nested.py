"""Whether this process runs a worker now: a rank may not start ranks of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_is_inside = False


def is_inside_rank() -> bool:
    """Return whether a worker runs in this process."""
    return _is_inside


@contextlib.contextmanager
def inside_rank() -> Iterator[None]:
    """Mark this process as a rank meanwhile."""
    global _is_inside  # noqa: PLW0603  # a fact about the process
    _is_inside = True
    try:
        yield
    finally:
        _is_inside = False
