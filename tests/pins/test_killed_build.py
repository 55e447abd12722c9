"""A build that is killed leaves nothing, and two builds at once don't meet: with real ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from fsdp_demo.pins.kernels import find_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
RANKS_KERNELS = [name for name, setting in find_kernels().items() if setting is not None]
LIMIT_S = 80.0

pytestmark = pytest.mark.skipif(
    not RANKS_KERNELS, reason="no kernel with torch is installed: `nox -s tests` makes them"
)

PAGE = """---
file_format: mystnb
kernelspec:
  name: KERNEL
---

# A page whose ranks wait

```{code-cell} python
:tags: [unpinned]
import os
import time
from pathlib import Path

from fsdp_demo import spawn

MARKS = Path(os.environ["MARKS"])


def wait(rank, world):
    (MARKS / f"rank {rank}").touch()
    while not (MARKS / "go on").exists():
        time.sleep(0.05)
    return rank


print("went on:", spawn(wait, 2))
```
"""


@dataclass(frozen=True, slots=True)
class Build:
    """A build of one page, started and not waited for; its temporary files have a folder."""

    process: subprocess.Popen[bytes]
    marks: Path
    temporary: Path
    printed: Path
    started: list[psutil.Process] = field(default_factory=list)

    @classmethod
    def start(cls, root: Path) -> Build:
        """Build a page with this project's own settings, with two processes."""
        docs, marks, temporary = (root / name for name in ("docs", "marks", "temporary"))
        printed = root / "printed.txt"
        for folder in (docs, marks, temporary):
            folder.mkdir(parents=True)
        source = PAGE.replace("KERNEL", RANKS_KERNELS[0])
        (docs / "index.md").write_text(source, encoding="utf-8")
        for number in range(5):  # with fewer pages Sphinx starts one process only
            text = f"---\norphan: true\n---\n\n# Page {number}\n"
            (docs / f"{number}.md").write_text(text, encoding="utf-8")
        sphinx = ["-m", "sphinx", "-q", "-j", "2", "-c", str(ROOT), "-b", "html"]
        runtime = {
            "MARKS": str(marks),
            "TMPDIR": str(temporary),
            "JUPYTER_RUNTIME_DIR": str(temporary),
        }
        with printed.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, *sphinx, str(docs), str(root / "html")],
                cwd=root,
                env={**os.environ, **runtime},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, marks, temporary, printed)

    def wait_for_ranks(self) -> list[psutil.Process]:
        """Wait until both ranks run; return all processes that the build has started."""
        is_there = wait_for(self.has_ranks, LIMIT_S)
        self.started.extend(psutil.Process(self.process.pid).children(recursive=True))
        assert is_there, self.printed.read_text(encoding="utf-8")
        assert len(self.started) >= 4  # a kernel, the ranks' server, two ranks
        return self.started

    def has_ranks(self) -> bool:
        """Return whether both ranks run."""
        return all((self.marks / f"rank {rank}").exists() for rank in range(2))

    def finish(self) -> str:
        """Let the ranks go on; return the page, once it is built."""
        (self.marks / "go on").touch()
        status = self.process.wait(LIMIT_S)
        assert status == 0, self.printed.read_text(encoding="utf-8")
        return (self.printed.parent / "html" / "index.html").read_text(encoding="utf-8")

    def left(self) -> list[str]:
        """Return what lies in its temporary folder."""
        return [str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*")]


def wait_for(is_true: Callable[[], bool], limit_s: float) -> bool:
    """Wait until something is true; return whether it is."""
    deadline = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Callable[[str], Build]]:
    """Return what starts a build; none outlives the test."""
    started: list[Build] = []

    def start(name: str) -> Build:
        started.append(Build.start(tmp_path / name))
        return started[-1]

    yield start
    for build in started:
        build.process.kill()
        build.process.wait(10)
        for process in build.started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_a_killed_build_leaves_no_process_and_no_file(builds: Callable[[str], Build]) -> None:
    """No rank, no server, no kernel, no temporary folder; Sphinx gets no chance to say goodbye."""
    build = builds("one")
    started = build.wait_for_ranks()
    build.process.kill()
    build.process.wait(10)
    _, alive = psutil.wait_procs(started, timeout=5)
    assert alive == []
    assert wait_for(lambda: build.left() == [], 3.0), build.left()


def test_an_interrupted_build_shows_no_traceback(builds: Callable[[str], Build]) -> None:
    """Ctrl-C reaches every process of the terminal's group, and each ends without a word."""
    build = builds("one")
    started = build.wait_for_ranks()
    os.killpg(build.process.pid, signal.SIGINT)
    assert build.process.wait(LIMIT_S) != 0
    _, alive = psutil.wait_procs(started, timeout=5)
    assert alive == []
    assert "Traceback" not in build.printed.read_text(encoding="utf-8")


def test_two_builds_at_once_do_not_meet(builds: Callable[[str], Build]) -> None:
    """One is killed, and the other ends well."""
    first, second = builds("first"), builds("second")
    firsts, seconds = first.wait_for_ranks(), second.wait_for_ranks()
    first.process.kill()
    _, alive = psutil.wait_procs(firsts, timeout=5)
    assert alive == []
    assert all(process.is_running() for process in seconds)
    assert "went on: [0, 1]" in second.finish()
    assert second.left() == []
