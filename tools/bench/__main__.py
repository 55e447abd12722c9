"""Measure what a build costs, against whatever one would use instead.

    nox -s bench                     # takes some minutes; leave the machine alone meanwhile
    nox -s bench -- --json FILE      # writes the figures too

Ends with status 1 when a bar is not met, or when something could not be measured.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.builds import measure_builds
from tools.bench.faults import measure_faults
from tools.bench.figures import Figure, Missing
from tools.bench.instruments import measure_instruments
from tools.bench.launchers import WORLDS, measure_launchers
from tools.bench.plans import measure_plans
from tools.bench.processes import BenchFault
from tools.bench.report import describe_setting, list_lines, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def run(ranks_python: str, launchers_python: str) -> list[Figure | Missing]:
    """Run all measurements, one after the other: two at once would measure each other.

    Args:
        ranks_python: what the lessons' kernel runs.
        launchers_python: one that holds accelerate besides.
    """
    figures: list[Figure | Missing] = []

    def collect(what: str, measured: Iterable[Figure | Missing]) -> None:
        start = time.monotonic()
        print(f"Measuring {what} ...", flush=True)
        for figure in _with_fault(what, measured):
            figures.append(figure)
            print("\n".join(list_lines([figure])), flush=True)
        print(f"Measured {what} in {time.monotonic() - start:.0f} s.", flush=True)

    collect("launchers", measure_launchers(launchers_python))
    collect("faults", measure_faults(ranks_python))
    collect("plans", measure_plans(ranks_python))
    collect("instruments", measure_instruments(ranks_python))
    by_name = {figure.name: figure.value for figure in figures if isinstance(figure, Figure)}
    scripts = {world: f"cell-{world}-script" for world in WORLDS}
    cell_seconds = {world: by_name[name] for world, name in scripts.items() if name in by_name}
    collect("builds", measure_builds(ranks_python, cell_seconds))
    return figures


def _with_fault(what: str, measured: Iterable[Figure | Missing]) -> Iterator[Figure | Missing]:
    """Yield what is measured and, should that break off, a last one that says why."""
    try:
        yield from measured
    except BenchFault as fault:
        yield Missing(what, what, str(fault))


def is_good(figures: Sequence[Figure | Missing]) -> bool:
    """Say whether everything was measured and every bar is met."""
    return all(isinstance(f, Figure) and f.is_met is not False for f in figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="nox -s bench --", description="Measure what a build costs."
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure by name")
    parser.add_argument("--ranks-python", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--launchers-python", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    if options.json and not options.json.parent.is_dir():
        parser.error(f"{options.json.parent} is no folder")
    setting = describe_setting(options.launchers_python)
    figures = run(options.ranks_python, options.launchers_python)
    print(", ".join(f"{key} {value}" for key, value in setting.items()))
    print("\n".join(list_lines(figures)))
    if options.json:
        options.json.write_text(write_json(setting, figures), encoding="utf-8")
    return 0 if is_good(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
