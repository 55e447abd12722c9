"""What a cell costs, and what its ranks weigh, by each way of launching them."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.figures import Figure, Missing, take_median, take_ratio
from tools.bench.processes import BenchFault, WarmProgram, find_free_port, run_timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORLDS = (2, 4)
WARM = ("spawn", "accelerate", "floor")
COLD = ("script", "torchrun")
ROUNDS = 3
WARM_ROUNDS = 7  # of each warm launcher in a round of all
LIMIT_S = 120.0
MB = 1e6

SAID = {
    "spawn": "`spawn`",
    "accelerate": "accelerate's `notebook_launcher`",
    "floor": "a bare fork, the floor",
    "script": "`mp.spawn`, a whole script",
    "torchrun": "`torchrun`, a whole command",
}
# What the time of `spawn` may be of another launcher's, with this many ranks.
BARRED_WORLD = 4
TIME_BARS = {"script": 0.03, "accelerate": 0.8, "floor": 2.0}
PRIVATE_MB_BAR = 20.0


def measure_launchers(
    python: str,
    rounds: int = ROUNDS,
    warm_rounds: int = WARM_ROUNDS,
    worlds: Sequence[int] = WORLDS,
) -> Iterator[Figure | Missing]:
    """Time a warm cell by each launcher, in turns, and weigh the ranks once.

    Args:
        python: a Python with torch, this project, and accelerate if it is to be measured.
        rounds: of all launchers.
        warm_rounds: of the warm ones in each of these.
        worlds: how many ranks; those of the last one are weighed.
    """
    with contextlib.ExitStack() as stack:
        programs: dict[str, WarmProgram] = {}
        reasons: dict[str, str] = {}
        for name in WARM:
            command = [python, "-m", "tools.bench.ranks.warm", name]
            program = stack.enter_context(WarmProgram(command, timeout_s=LIMIT_S))
            try:
                program.hear()
                for world in worlds:
                    program.ask(world=world, weigh=False)  # not counted: what is read only once
            except BenchFault as fault:
                reasons[name] = str(fault)
            else:
                programs[name] = program
        seconds = _time_all(python, programs, worlds, rounds, warm_rounds)
        weights = {name: _weigh_warm(program, worlds[-1]) for name, program in programs.items()}
    weights |= {name: _weigh_cold(python, name, worlds[-1]) for name in COLD}
    yield from _tell_times(seconds, reasons, worlds)
    yield from _tell_weights(weights, reasons)


def _time_all(
    python: str,
    programs: dict[str, WarmProgram],
    worlds: Sequence[int],
    rounds: int,
    warm_rounds: int,
) -> dict[tuple[str, int], list[float]]:
    """Return the seconds of each launcher and world; the launchers take turns."""
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    for turn in range(rounds):
        for world in worlds:
            for name in _rotate(COLD, turn):
                seconds[name, world].append(_run_cold(python, name, world).seconds)
            for inner in range(warm_rounds):
                for name in _rotate(list(programs), inner):
                    answer = programs[name].ask(world=world, weigh=False)
                    seconds[name, world].append(answer["seconds"])
    return seconds


def _rotate(names: Sequence[str], turn: int) -> list[str]:
    """Let another one begin each turn, so that none always follows the same one."""
    first = turn % len(names) if names else 0
    return [*names[first:], *names[:first]]


@dataclass(frozen=True, slots=True)
class _Cold:
    """A whole command: how long it took, and what its ranks noted."""

    seconds: float
    nbytes: list[int]


def _run_cold(python: str, name: str, world: int, *, weigh: bool = False) -> _Cold:
    """Run a launcher that starts from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        program = ["-m", "tools.bench.ranks.script", str(world), folder]
        if name == "torchrun":
            # `--standalone` would look this machine's own name up, which need not resolve.
            where = ["--master-addr", "127.0.0.1", "--master-port", str(find_free_port())]
            ranks = ["--nproc-per-node", str(world)]
            program = ["-m", "torch.distributed.run", *ranks, *where, *program]
        run = run_timed([python, *program, *(["weigh"] if weigh else [])], timeout_s=LIMIT_S)
        notes = sorted(Path(folder).glob("nbytes-*"))
        return _Cold(run.seconds, [int(note.read_text(encoding="ascii")) for note in notes])


def _weigh_warm(program: WarmProgram, world: int) -> list[int]:
    nbytes: list[int] = program.ask(world=world, weigh=sys.platform == "linux")["nbytes"]
    return nbytes


def _weigh_cold(python: str, name: str, world: int) -> list[int]:
    return _run_cold(python, name, world, weigh=sys.platform == "linux").nbytes


def _tell_times(
    seconds: dict[tuple[str, int], list[float]], reasons: dict[str, str], worlds: Sequence[int]
) -> Iterator[Figure | Missing]:
    for world in worlds:
        made = {}
        for name in (*WARM, *COLD):
            what = f"{world} ranks by {SAID[name]}"
            if name in reasons:
                yield Missing(f"cell-{world}-{name}", what, reasons[name])
                continue
            made[name] = take_median(f"cell-{world}-{name}", what, "s", seconds[name, world])
            yield made[name]
        for name in ("script", "torchrun", "accelerate", "floor"):
            what = f"{world} ranks by `spawn`, as a share of {SAID[name]}"
            whole = f"cell-{world}-spawn-to-{name}"
            for needed in ("spawn", name):
                if needed in reasons:
                    yield Missing(whole, what, reasons[needed])
                    break
            else:
                bar = TIME_BARS.get(name) if world == BARRED_WORLD else None
                yield take_ratio(whole, what, made["spawn"], made[name], bar)


def _tell_weights(
    weights: dict[str, list[int]], reasons: dict[str, str]
) -> Iterator[Figure | Missing]:
    """Tell the private memory of the ranks; the bar is for `spawn`."""
    for name in (*WARM, *COLD):
        figure, what = f"memory-{name}", f"a rank by {SAID[name]}"
        if name in reasons:
            yield Missing(figure, what, reasons[name])
        elif not any(weights[name]):
            yield Missing(figure, what, "this system has no /proc/PID/smaps_rollup to weigh with")
        else:
            bar = PRIVATE_MB_BAR if name == "spawn" else None
            megabytes = [nbytes / MB for nbytes in weights[name]]
            yield take_median(figure, what, "MB", megabytes, bar)
