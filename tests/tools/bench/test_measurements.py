"""Each measurement runs for real once, and tells the figures that its page knows by name."""

from __future__ import annotations

import sys

import pytest

from tools.bench.faults import FAULTS, measure_faults
from tools.bench.figures import Figure, Missing
from tools.bench.instruments import measure_instruments
from tools.bench.launchers import measure_launchers
from tools.bench.plans import measure_plans
from tools.bench.private_memory import read_private_nbytes

pytestmark = pytest.mark.timeout(300)


def by_name(figures: list[Figure | Missing]) -> dict[str, Figure | Missing]:
    names = [figure.name for figure in figures]
    assert len(names) == len(set(names))
    return dict(zip(names, figures, strict=True))


def test_launchers_side_by_side(ranks_python: str) -> None:
    """What isn't installed is named with its reason, and so is each ratio to it."""
    figures = by_name(list(measure_launchers(ranks_python, 1, 1, worlds=(2,))))
    for name in ("spawn", "floor", "script", "torchrun"):
        cell = figures[f"cell-2-{name}"]
        assert isinstance(cell, Figure)
        assert cell.value > 0
        if sys.platform == "linux":
            memory = figures[f"memory-{name}"]
            assert isinstance(memory, Figure)
            assert memory.unit == "MB"
            assert memory.value > 1
    for name in ("cell-2-accelerate", "cell-2-spawn-to-accelerate", "memory-accelerate"):
        gap = figures[name]
        assert isinstance(gap, Missing)
        assert "accelerate can't be imported: No module named 'accelerate'" in gap.reason
    ours, theirs = figures["cell-2-spawn"], figures["cell-2-script"]
    ratio = figures["cell-2-spawn-to-script"]
    assert isinstance(ours, Figure)
    assert isinstance(theirs, Figure)
    assert isinstance(ratio, Figure)
    assert ratio.value == pytest.approx(ours.value / theirs.value)


def test_each_fault_is_timed(ranks_python: str) -> None:
    figures = by_name(list(measure_faults(ranks_python, 1)))
    assert list(figures) == [f"fault-{fault}" for fault in FAULTS]
    for figure in figures.values():
        assert isinstance(figure, Figure)
        assert figure.value > 0
        assert figure.at_most == (3.0 if figure.name == "fault-deadlock" else 1.0)


def test_instruments_against_the_same_step_unwatched(ranks_python: str) -> None:
    figures = by_name(list(measure_instruments(ranks_python, 3)))
    ratio = figures["step-full-shard-count-to-plain"]
    assert isinstance(ratio, Figure)
    assert ratio.at_most == 1.5


def test_plans_at_two_worlds(ranks_python: str) -> None:
    figures = by_name(list(measure_plans(ranks_python, 1)))
    assert {"plan-8", "plan-1024", "plan-1024-to-8", "plan-memory"} <= set(figures)
    assert "6.7 billion parameters at world 1024" in figures["plan-1024"].what
    assert figures["plan-tree-units"].what == "a plan of a tree of 10,001 modules, 2,001 units"


def test_private_memory_is_what_no_other_process_shares() -> None:
    smaps = """\
55a0e3c00000-7ffd1b5d9000 ---p 00000000 00:00 0                          [rollup]
Rss:              240000 kB
Pss:               90000 kB
Shared_Clean:     100000 kB
Private_Clean:      2000 kB
Private_Dirty:     13000 kB
Private_Hugetlb:       0 kB
"""
    assert read_private_nbytes(smaps) == 15000 * 1024
