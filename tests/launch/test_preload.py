"""What the fork server has done before it forks a rank, so that no rank does it again."""

from __future__ import annotations

import mmap
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fsdp_demo import spawn
from fsdp_demo.launch import preload
from fsdp_demo.launch.client import Shared
from tests.launch import workers
from tests.processes import import_path

NOTE_IMPORTS = """
import os, sys

class Noting:
    def find_spec(name, path=None, target=None):
        print(os.getpid(), name, file=note)

note = open({file!r}, "a", buffering=1)
sys.meta_path.insert(0, Noting)
"""
TWO_RANKS = """
import os
from fsdp_demo import spawn

def work(rank, world):
    import fsdp_demo.units
    return os.getpid()

if __name__ == "__main__":
    print(*spawn(work, 2))
"""
GATHER = """
import os, re
from fsdp_demo.launch import preload

text = os.urandom(16).hex()
lines = [f"{text} {number}" for number in range(400_000)]
preload.gather_pages()
gathered = re.search(r"AnonHugePages: +([1-9]\\d*) kB", open("/proc/self/smaps_rollup").read())
pid = os.fork()
lines[pid == 0] = "written after the fork, by each to its own copy"
as_before = all(lines[number] == f"{text} {number}" for number in range(2, len(lines)))
if pid == 0:
    os._exit(as_before and lines[0].startswith(text) and lines[1].startswith("written"))
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
assert as_before and lines[0].startswith("written") and lines[1].startswith(text)
assert gathered
"""


def test_a_rank_imports_only_what_its_worker_does(tmp_path: Path) -> None:
    """Torch and the launcher are there; an instrument is as new as the rank, not as the server."""
    noted = tmp_path / "imports"
    (tmp_path / "sitecustomize.py").write_text(NOTE_IMPORTS.format(file=str(noted)))
    script = tmp_path / "script.py"
    script.write_text(TWO_RANKS)
    run = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": import_path(str(tmp_path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    imports = [line.split() for line in noted.read_text().splitlines()]
    assert [name for _, name in imports if name in ("torch", "fsdp_demo.launch.rank")] == [
        "torch",
        "fsdp_demo.launch.rank",
    ]
    ours = re.compile(r"(torch|fsdp_demo)\b")
    for rank in run.stdout.split():
        by_rank = {name for pid, name in imports if pid == rank and ours.match(name)}
        assert by_rank == {"fsdp_demo.units"}


def can_gather() -> bool:
    """Return whether this system makes a huge page of ordinary ones when it is asked to."""
    if platform.system() != "Linux":
        return False
    with mmap.mmap(-1, 2 * preload.HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as room:
        for at in range(0, len(room), mmap.PAGESIZE):
            room[at] = 1
        try:
            room.madvise(preload.MADV_COLLAPSE)
        except OSError:
            return False
    return True


needs_huge_pages = pytest.mark.skipif(
    not can_gather(), reason="this system gathers no pages on request"
)


@needs_huge_pages
def test_gathering_pages_changes_nothing_in_them() -> None:
    subprocess.run([sys.executable, "-c", GATHER], timeout=120, check=True)


@needs_huge_pages
@pytest.mark.usefixtures("no_trace")
def test_ranks_are_forked_from_huge_pages() -> None:
    spawn(workers.add_up, 2)
    assert Shared.client is not None
    smaps = Path(f"/proc/{Shared.client.process.pid}/smaps_rollup").read_text()
    assert re.search(r"AnonHugePages: +[1-9]\d* kB", smaps)
