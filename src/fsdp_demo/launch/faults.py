"""An exception in a rank as plain data that the parent can show.

The exception itself stays in the rank: its class may not exist in the parent, and many can't be
pickled.
"""

from __future__ import annotations

import traceback
from typing import Any


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return the exception's type, message and frames, and those of what led to it, oldest first.

    Returns:
        ``{"chain": [{"type", "message", "frames", "link"}, …]}``, the raised exception last; a
        frame is ``(file name, line number, function)``, outermost first; `link` says how it led to
        the next one: "cause", "context", or "" for the last.
    """
    chain: list[dict[str, Any]] = []
    seen: set[int] = set()
    link = ""
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        chain.append(describe_one(current, link))
        if current.__cause__ is not None:
            current, link = current.__cause__, "cause"
        elif current.__suppress_context__:
            current = None
        else:
            current, link = current.__context__, "context"
    return {"chain": chain[::-1]}


def describe_one(error: BaseException, link: str) -> dict[str, Any]:
    """Return one link of the chain."""
    try:
        message = str(error)
    except BaseException as second:  # noqa: BLE001  # a broken __str__ must not hide the fault
        message = f"<its message can't be had: {type(second).__name__}>"
    notes = [str(note) for note in getattr(error, "__notes__", [])]
    kind = type(error)
    name = kind.__qualname__.removeprefix("<locals>.").rsplit("<locals>.", 1)[-1]
    return {
        "type": name,
        "message": "\n".join([message, *notes]),
        "frames": [
            (frame.f_code.co_filename, lineno, frame.f_code.co_name)
            for frame, lineno in traceback.walk_tb(error.__traceback__)
        ],
        "link": link,
    }
