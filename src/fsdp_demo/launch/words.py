"""Small pieces of a fault's message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_MESSAGE = 4000  # characters of an exception's message
PORT = re.compile(r"\[?127\.0\.0\.1\]?:\d+")
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def join_words(words: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def name_ranks(ranks: Sequence[int]) -> str:
    """Return "rank 2", "ranks 0 and 2" or, where they follow each other, "ranks 0 to 3"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:  # noqa: PLR2004  # a pair reads better with "and"
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {join_words([str(rank) for rank in ranks])}"


def clean(message: str) -> str:
    """Return a message without ports and addresses, which differ each time, and not too long."""
    message = ADDRESS.sub("0x…", PORT.sub("127.0.0.1", message)).strip()
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}… ({len(message) - MAX_MESSAGE} more characters)"
    return message


def first_line(message: str) -> str:
    """Return a message's first line, with a sign where more follows."""
    lines = message.splitlines() or [""]
    return lines[0] if len(lines) == 1 else lines[0] + " …"
