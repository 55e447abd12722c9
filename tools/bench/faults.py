"""How long a reader waits for the message when a rank goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench.figures import Figure, Missing, take_median
from tools.bench.processes import BenchFault, WarmProgram

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 5
LIMIT_S = 120.0
FAULTY = 2  # as in ranks/faulty.py

# Each fault, in words, and how many seconds its message may take.
FAULTS = {
    "raise": ("a rank raises", 1.0),
    "exit": ("a rank calls `os._exit`", 1.0),
    "kill": ("a rank is killed", 1.0),
    "deadlock": ("a rank skips a collective", 3.0),
}


def measure_faults(python: str, rounds: int = ROUNDS) -> Iterator[Figure | Missing]:
    """Time each fault, in turns.

    Raises:
        BenchFault: the wrong rank was blamed, or none.
    """
    seconds: dict[str, list[float]] = {fault: [] for fault in FAULTS}
    command = [python, "-m", "tools.bench.ranks.faulty"]
    with WarmProgram(command, timeout_s=LIMIT_S) as program:
        program.hear()
        for _ in range(rounds):
            for fault in FAULTS:
                answer = program.ask(fault=fault)
                if answer["rank"] != FAULTY:
                    raise BenchFault(f"{fault}: rank {answer['rank']} was blamed, not {FAULTY}")
                seconds[fault].append(answer["seconds"])
    for fault, (what, bar) in FAULTS.items():
        yield take_median(f"fault-{fault}", what, "s", seconds[fault], bar)
