"""Launch the cell again and again from a process that has imported torch, as a notebook does.

    python -m tools.bench.ranks.warm spawn|accelerate|floor

Reads a request a line, ``{"world": 4, "weigh": false}``, and answers ``{"seconds": …}``, with
``"nbytes"``, each rank's private memory, when it was asked to weigh. Answers ``{"error": …}`` where
it can't.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Launch = Callable[[int, bool, str], list[int]]


def launch_by_spawn() -> Launch:
    """Use this project's `spawn`; in a notebook the cell's own code goes with the call."""
    import cloudpickle  # type: ignore[import-untyped]  # noqa: PLC0415  # only here

    from fsdp_demo import spawn  # noqa: PLC0415  # only where it is measured
    from tools.bench import private_memory  # noqa: PLC0415  # likewise
    from tools.bench.ranks import cell  # noqa: PLC0415  # likewise

    # The other launchers' ranks find these imported, as they find what a notebook defines.
    for module in (cell, private_memory):
        cloudpickle.register_pickle_by_value(module)

    def launch(world: int, weigh: bool, folder: str) -> list[int]:  # noqa: FBT001  # as all three
        del folder
        return spawn(cell.run_cell, world, weigh)

    return launch


def launch_by_accelerate() -> Launch:
    """Use accelerate's `notebook_launcher` as it comes, on a port that is free."""
    from accelerate import (  # type: ignore[import-not-found]  # noqa: PLC0415  # only here
        notebook_launcher,
    )

    from tools.bench.processes import find_free_port  # noqa: PLC0415  # likewise
    from tools.bench.ranks import cell  # noqa: PLC0415  # likewise

    def launch(world: int, weigh: bool, folder: str) -> list[int]:  # noqa: FBT001  # as all three
        def be_rank() -> None:
            cell.run_alone(int(os.environ["RANK"]), world, folder, weigh=weigh)

        notebook_launcher(be_rank, num_processes=world, use_port=str(find_free_port()))
        return read_weights(folder)

    return launch


def launch_by_fork() -> Launch:
    """Fork and wait, and nothing else: no output is kept, no fault noticed."""
    from tools.bench.ranks import cell  # noqa: PLC0415  # only where it is measured

    def launch(world: int, weigh: bool, folder: str) -> list[int]:  # noqa: FBT001  # as all three
        pids = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                try:
                    cell.run_alone(rank, world, folder, weigh=weigh)
                finally:
                    cell.leave()
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        return read_weights(folder)

    return launch


LAUNCHERS = {
    "spawn": launch_by_spawn,
    "accelerate": launch_by_accelerate,
    "floor": launch_by_fork,
}


def read_weights(folder: str) -> list[int]:
    """Return what the ranks noted of their memory, if they did."""
    notes = sorted(Path(folder).glob("nbytes-*"))
    return [int(note.read_text(encoding="ascii")) for note in notes]


def serve(name: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a launcher prints is no answer
    requests = sys.stdin
    try:
        launch = LAUNCHERS[name]()
    except ImportError as error:
        launch = None
        answer: dict[str, object] = {"error": f"{name} can't be imported: {error}"}
    else:
        answer = {"ready": True}
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        line = requests.readline()
        if not line or launch is None:
            return
        request = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            try:
                start = time.perf_counter()
                weights = launch(request["world"], request["weigh"], folder)
                answer = {"seconds": time.perf_counter() - start, "nbytes": weights}
            except Exception as error:  # noqa: BLE001  # whatever a launcher raises
                answer = {"error": f"{name} failed: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    serve(sys.argv[1])
