"""Whichever process is ended, nothing that came from it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from fsdp_demo.warm.extension import PROCESS
from fsdp_demo.warm.provisioner import choose_address
from tests.processes import are_gone, wait_for
from tests.warm.conftest import ENVIRONMENT, KERNEL, Warm, start_warm

if TYPE_CHECKING:
    from pathlib import Path

HANG = """
import fsdp_demo, os, pathlib, subprocess, time

def hang(rank, world):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    pathlib.Path(FOLDER, str(rank)).touch()
    time.sleep(1000)

subprocess.Popen(["sleep", "1000"])
fsdp_demo.spawn(hang, 2)
"""

CONF = """
extensions = ["myst_nb", "fsdp_demo.warm"]
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 60
"""

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: {kernel}
---

# A page

```{{code-cell}} python
{source}
```
"""


def below(pid: int) -> list[psutil.Process]:
    """Return all processes that descend from a process."""
    found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    return found


def wait_for_ranks(folder: Path) -> None:
    """Wait until both ranks hang."""
    wait_for(lambda: all((folder / str(rank)).exists() for rank in range(2)))


def hanging(warm: Warm, tmp_path: Path, pid: int) -> list[psutil.Process]:
    """Return what runs now: the kernel, its child, the server, two ranks and a child of each."""
    wait_for_ranks(tmp_path)
    processes = [psutil.Process(pid), *below(pid)]
    assert len(processes) == 7
    assert processes[0].ppid() == warm.process.pid
    return processes


@pytest.mark.parametrize("who", ["the kernel", "the one that stands in for it"])
def test_all_goes_with(who: str, warm: Warm, tmp_path: Path) -> None:
    with warm.kernel() as kernel:
        pid = kernel.pid
        kernel.client.execute(HANG.replace("FOLDER", repr(str(tmp_path))))
        processes = hanging(warm, tmp_path, pid)
        os.kill(pid if who == "the kernel" else kernel.process.pid, signal.SIGKILL)
        assert wait_for(lambda: are_gone(processes)) < 2.0
        assert kernel.process.wait(5) == -signal.SIGKILL
        wait_for(lambda: below(warm.process.pid) == [], 2.0)


def test_a_stop_ends_it_as_it_would_an_ordinary_one(warm: Warm) -> None:
    with warm.kernel() as kernel:
        processes = [psutil.Process(kernel.pid), *below(kernel.pid)]
        kernel.client.execute("import time; time.sleep(1000)")
        kernel.process.terminate()
        assert kernel.process.wait(5) == -signal.SIGTERM
        wait_for(lambda: are_gone(processes), 2.0)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_goes_with_the_warm_process(how: int, tmp_path: Path) -> None:
    with start_warm() as warm:
        with warm.kernel() as kernel:
            pid = kernel.pid
            kernel.client.execute(HANG.replace("FOLDER", repr(str(tmp_path))))
            processes = hanging(warm, tmp_path, pid)
            os.kill(warm.process.pid, how)
            assert wait_for(lambda: are_gone(processes)) < 2.0
            kernel.process.wait(5)
        if how == signal.SIGKILL:  # nobody was left to remove it
            for file in sorted(warm.folder.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            warm.folder.rmdir()


def start_build(tmp_path: Path, source: str, *options: str) -> subprocess.Popen[str]:
    """Start a build of a site of one page and one without cells, read by two processes."""
    docs, temporary = tmp_path / "docs", tmp_path / "temporary"
    home = tmp_path / "home"
    for folder in (docs, temporary, home):
        folder.mkdir()
    (docs / "conf.py").write_text(CONF, encoding="utf-8")
    (docs / "index.md").write_text("# Site\n\n```{toctree}\npage\n```\n", encoding="utf-8")
    page = PAGE.format(kernel=KERNEL, source=source)
    (docs / "page.md").write_text(page, encoding="utf-8")
    environ = {**os.environ, "TMPDIR": str(temporary), "HOME": str(home)}
    environ["JUPYTER_PATH"] = str(ENVIRONMENT / "share" / "jupyter")
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-j", "2", *options]
    return subprocess.Popen(
        [*sphinx, str(docs), str(tmp_path / "html")],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_a_build_leaves_nothing(tmp_path: Path) -> None:
    source = (
        "import sys, tempfile, fsdp_demo\n"
        "print('warm:', 'torch' in sys.modules)\n"
        "kept = tempfile.NamedTemporaryFile(delete=False)\n"
        "print('ranks:', fsdp_demo.spawn(lambda rank, world: rank, 2))"
    )
    build = start_build(tmp_path, source)
    out, _ = build.communicate(timeout=90)
    assert (out, build.returncode) == ("", 0)
    html = (tmp_path / "html" / "page.html").read_text(encoding="utf-8")
    assert "warm: True\n" in html
    assert "ranks: [0, 1]\n" in html
    assert list((tmp_path / "temporary").iterdir()) == []


def test_kernels_share_no_ports(tmp_path: Path) -> None:
    """A port that was free when it was chosen may be taken when it is bound."""
    source = "import ipykernel\nprint(ipykernel.get_connection_info(unpack=True)['transport'])"
    build = start_build(tmp_path, source)
    out, _ = build.communicate(timeout=90)
    assert (out, build.returncode) == ("", 0)
    assert ">ipc\n<" in (tmp_path / "html" / "page.html").read_text(encoding="utf-8")


def test_a_folder_with_a_long_path_leaves_the_kernels_address_to_jupyter(tmp_path: Path) -> None:
    assert choose_address(str(tmp_path / ("a" * 100))) is None
    assert choose_address(None) is None
    first, second = choose_address("/tmp/a"), choose_address("/tmp/a")  # noqa: S108  # nothing is written
    assert first != second


@pytest.mark.parametrize("how", ["killed", "stopped from its terminal"])
def test_all_goes_with_the_build(how: str, tmp_path: Path) -> None:
    build = start_build(tmp_path, HANG.replace("FOLDER", repr(str(tmp_path))))
    wait_for_ranks(tmp_path)
    processes = below(build.pid)
    assert len(processes) == 10  # the warm one, a reader, the one that stands in, and seven
    if how == "killed":
        build.kill()
    else:
        os.killpg(build.pid, signal.SIGINT)
    build.communicate(timeout=20)
    assert wait_for(lambda: are_gone(processes)) < 2.0
    wait_for(lambda: list((tmp_path / "temporary").iterdir()) == [], 2.0)


def test_a_build_that_runs_no_page_imports_nothing(tmp_path: Path) -> None:
    """The warm process is there, and as small as it began."""
    build = start_build(tmp_path, "print(1)", "-D", "nb_execution_mode=off")
    sizes = [0]
    while build.poll() is None:
        with contextlib.suppress(psutil.Error):  # it ends just now
            children = below(build.pid)
            found = [child for child in children if str(PROCESS) in child.cmdline()]
            sizes += [child.memory_info().rss for child in found]
    build.communicate(timeout=20)
    assert build.returncode == 0
    assert 0 < max(sizes) < 40_000_000
