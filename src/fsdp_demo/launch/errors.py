"""What `spawn` raises.

A notebook shows either error as its message alone: the parent's own frames say nothing about the
rank.
"""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsdp_demo.launch.frames import Frame


COLUMNS = 80
CODE_LINE = re.compile(r"(---->|     ) +\d+ ")  # as `frames.show_frame` writes it


def wrap_line(line: str) -> list[str]:
    """Return a message's line in lines that a page shows whole; a line of code stays as it is."""
    if len(line) <= COLUMNS or CODE_LINE.match(line):
        return [line]
    return wrap(
        line, COLUMNS, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


class SpawnError(Exception):
    """The ranks could not be started: what was asked for makes no sense, or can't be had here."""

    __module__ = "fsdp_demo"

    @property
    def details(self) -> str:
        """What stands below the summary."""
        return "\n".join(getattr(self, "__notes__", []))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of a traceback."""
        text = f"{type(self).__name__}: {self}"
        if self.details:
            text += "\n\n" + self.details
        return [part for line in text.split("\n") for part in wrap_line(line)]


class RankError(SpawnError):
    """A rank raised, died, hung or said something that can't be used.

    `str(error)` is a summary of one line; `error.details` holds the rank's own traceback and is
    printed below the summary, in a notebook and in a script alike.

    Attributes:
        kind: what happened: "raised", "died", "stalled", "timeout", "mismatch", "output" or
            "return value".
        rank: the rank to blame; the lowest when several are.
        frames: the blamed rank's own frames, outermost first, each with its file, line and
            function.
    """

    __module__ = "fsdp_demo"

    def __init__(
        self,
        summary: str,
        *,
        kind: str,
        rank: int,
        frames: tuple[Frame, ...] = (),
        details: str = "",
    ) -> None:
        super().__init__(summary)
        self.kind = kind
        self.rank = rank
        self.frames = frames
        if details:
            # A note: a script's traceback prints it below the summary.
            self.add_note("\n" + details)

    @property
    def details(self) -> str:
        """What stands below the summary: tracebacks, and where the other ranks were."""
        return super().details.lstrip("\n")
