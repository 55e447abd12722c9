"""Commands run at the same time; what they print doesn't mix, and none is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from tests.processes import are_gone, wait_for
from tools.side_by_side import run_side_by_side

MEET = """
import pathlib, sys, time
mine, other = map(pathlib.Path, sys.argv[1:])
print(mine.name, "begins", flush=True)
mine.touch()
while not other.exists():
    time.sleep(0.01)
print(mine.name, "ends", flush=True)
sys.exit(3 if mine.name == "b" else 0)
"""
RUN = """
import os, sys
from tools.side_by_side import run_side_by_side
sleep = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]
run_side_by_side([sleep, sleep], os.environ)
"""


def test_they_run_at_once_and_print_in_turn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each waits for the other, which would last for ever if one ran after the other."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    python = [sys.executable, "-c", MEET]
    assert run_side_by_side([[*python, a, b], [*python, b, a]], os.environ) == [0, 3]
    assert capfd.readouterr().out == "a begins\na ends\nb begins\nb ends\n"


@pytest.mark.parametrize("who", ["all", "the caller"])
def test_an_interrupt_ends_them(who: str) -> None:
    """As from a terminal, where it reaches all of them, or sent to the caller alone."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"1\n"
        process = psutil.Process(caller.pid)
        wait_for(lambda: len(process.children()) == 2)
        commands = process.children()
        (os.killpg if who == "all" else os.kill)(caller.pid, signal.SIGINT)
        wait_for(lambda: are_gone([process, *commands]))
