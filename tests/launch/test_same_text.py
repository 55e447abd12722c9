"""What ranks print under `spawn` is what they print under `mp.spawn`, however busy the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.launch.same_text import ABORTED
from tests.processes import import_path

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("same_text.py")
RUNS, THOROUGH_RUNS = 3, 30
LIMIT_S = 120.0  # a run that takes 10 s on a machine with nothing else to do


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Keep as many cores busy as the ranks could use."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
    yield
    assert [loop.poll() for loop in loops] == [None, None]
    for loop in loops:
        loop.kill()
        loop.wait()


def run_script(by: str) -> tuple[str, bool]:
    """Return what the ranks print, and whether one of them aborted at its end."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), by],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": import_path()},
    )
    assert done.returncode in (0, ABORTED), done.stderr
    return done.stdout, done.returncode == ABORTED


@pytest.mark.timeout(2 * THOROUGH_RUNS * LIMIT_S)
@pytest.mark.usefixtures("busy_cores")
def test_the_same_text_as_under_mp_spawn(
    request: pytest.FixtureRequest,
) -> None:
    """With `--thorough`, 30 runs of each; else 3 of ours beside one of the other.

    A rank of `mp.spawn` that aborts at its end is counted and allowed; none of ours may.
    """
    thorough = request.config.getoption("--thorough")
    texts: list[str] = []
    aborted = {"mp": 0, "spawn": 0}
    for number in range(THOROUGH_RUNS if thorough else RUNS):
        for by in ("mp", "spawn") if thorough or number == 0 else ("spawn",):
            text, has_aborted = run_script(by)
            texts.append(text)
            aborted[by] += has_aborted
    equal = sum(text == texts[0] for text in texts)
    print(f"{len(texts)} runs, {equal} with the same text; aborts at exit: {aborted}")
    assert texts[0].count("\n") > 2 * 20
    assert equal == len(texts), next(text for text in texts if text != texts[0])
    assert aborted["spawn"] == 0
