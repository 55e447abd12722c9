"""One event of a run of ranks, from the call to the return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something that processes did, or that one told another.

    Attributes:
        by: the processes that did it; several where each did the same, and none was first.
        what: what they did, as in "loading the worker", or said.
        to: the process that it was done or said to; None where there is none.
        is_joint: whether each of them needed the others for it, as in a collective.
    """

    by: tuple[str, ...]
    what: str
    to: str | None = None
    is_joint: bool = False

    def __str__(self) -> str:
        """Return it as in "fork server -> rank 1: fork"."""
        who = f"{self.by[0]} -> {self.to}" if self.to else ", ".join(self.by)
        return f"{who}{' together' if self.is_joint else ''}: {self.what}"
