"""What a plan of a large model costs, in time and memory, and whether the world matters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tools.bench.figures import Figure, Missing, take_median, take_ratio
from tools.bench.processes import run_timed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 11
LIMIT_S = 200.0
PLAN_BAR_S = 1.0
MEMORY_BAR_MB = 200.0
WORLD_BAR = 1.2  # 128 times the ranks; what is left is noise
MB = 1e6

KINDS = {"": "", "-example": ", with an example to follow"}


def measure_plans(python: str, rounds: int = ROUNDS) -> Iterator[Figure | Missing]:
    """Time plans of a decoder on the meta device at two worlds, in turns, and of a wide tree.

    Raises:
        BenchFault: planning failed.
    """
    command = [python, "-m", "tools.bench.ranks.planning", str(rounds)]
    found = json.loads(run_timed(command, timeout_s=LIMIT_S).stdout)
    model = f"a plan of {found['numel'] / 1e9:.1f} billion parameters"
    for kind, said in KINDS.items():
        small, large = (
            take_median(
                f"plan-{world}{kind}",
                f"{model} at world {world}{said}",
                "s",
                found["seconds"][f"{world}{kind}"],
                PLAN_BAR_S,
            )
            for world in (8, 1024)
        )
        yield from (small, large)
        what = f"{model}{said}, at world 1024 to world 8"
        yield take_ratio(f"plan-1024-to-8{kind}", what, large, small, WORLD_BAR)
    what = "the memory of these plans, beyond torch's own"
    yield Figure("plan-memory", what, found["nbytes"] / MB, "MB", MEMORY_BAR_MB)
    tree = f"a plan of a tree of {found['modules']:,} modules"
    for name, units in found["units"].items():
        said = f"{units:,} {'unit' if units == 1 else 'units'}"
        yield take_median(f"plan-{name}", f"{tree}, {said}", "s", found["seconds"][name])
