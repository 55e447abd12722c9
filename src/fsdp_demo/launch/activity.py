"""Whether processes do anything: read from /proc, so on Linux only; elsewhere nothing is known."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# A rank that waits isn't wholly idle: gloo's thread wakes up a hundred times a second.
SLACK_TICKS = 2
TICKS_PER_S = 5  # of a hundred


class Activity(NamedTuple):
    """A process at one moment."""

    is_asleep: bool  # its main thread
    cpu_ticks: int  # that all its threads have used so far, of 10 ms each


def sample_activity(pid: int) -> Activity | None:
    """Return what a process does now; None when it has ended or can't be seen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name may hold anything; the fields begin after its closing bracket.
    fields = text.rpartition(")")[2].split()
    return Activity(fields[0] == "S", int(fields[11]) + int(fields[12]))


class Quiet:
    """For how long each of some processes has been asleep, using next to no CPU."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.base: dict[int, int] = {}

    def update(self, pids: list[int], now: float) -> float:
        """Look at the processes now; return for how many seconds they have been quiet.

        Args:
            pids: the processes; another set starts the count anew.
            now: `time.monotonic()`.
        """
        samples = {pid: sample_activity(pid) for pid in pids}
        current = {pid: sample.cpu_ticks for pid, sample in samples.items() if sample is not None}
        if not pids or not all(
            sample is not None and sample.is_asleep for sample in samples.values()
        ):
            self.since = None
            return 0.0
        if self.since is not None and current.keys() == self.base.keys():
            allowed = SLACK_TICKS + TICKS_PER_S * (now - self.since)
            if all(ticks - self.base[pid] <= allowed for pid, ticks in current.items()):
                return now - self.since
        self.since, self.base = now, current
        return 0.0
