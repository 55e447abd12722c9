"""What the instruments cost: a watched step against one that nothing watches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tools.bench.figures import Figure, Missing, take_median, take_ratio
from tools.bench.processes import run_timed

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 60
LIMIT_S = 150.0
BAR = 1.5
INSTRUMENTS = {"count": "`count_collectives`", "record": "`record_memory`"}


def measure_instruments(python: str, steps: int = STEPS) -> Iterator[Figure | Missing]:
    """Time steps on four ranks, with and without each instrument, in turns.

    Raises:
        BenchFault: the ranks failed.
    """
    command = [python, "-m", "tools.bench.ranks.watched", str(steps)]
    seconds = json.loads(run_timed(command, timeout_s=LIMIT_S).stdout)
    for strategy in dict.fromkeys(key.split()[0] for key in seconds):
        slug = strategy.lower().replace("_", "-")
        step = f"a step under `{strategy}`"
        plain = take_median(f"step-{slug}", step, "s", seconds[f"{strategy} plain"])
        yield plain
        for name, said in INSTRUMENTS.items():
            watched = take_median(
                f"step-{slug}-{name}",
                f"{step}, watched by {said}",
                "s",
                seconds[f"{strategy} {name}"],
            )
            yield watched
            yield take_ratio(
                f"step-{slug}-{name}-to-plain",
                f"{step}, watched by {said}, to one unwatched",
                watched,
                plain,
                BAR,
            )
