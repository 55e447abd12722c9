"""Replace a function of torch for a while."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def replaced(
    owner: Any,  # noqa: ANN401  # a class or a module
    name: str,
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Put `make(original)` in the place of `owner`'s function `name`; put it back afterwards.

    `AttributeError` when this version of torch has no such function.
    """
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))
    try:
        yield
    finally:
        setattr(owner, name, original)
