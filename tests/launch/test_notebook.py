"""In a real kernel: workers defined in cells, errors as a reader sees them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest
from jupyter_client.manager import KernelManager

from tests.processes import import_path, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jupyter_client.blocking.client import BlockingKernelClient


@contextlib.contextmanager
def running_kernel(environ: Mapping[str, str]) -> Iterator[BlockingKernelClient]:
    """Start a kernel of this interpreter that has imported `spawn`."""
    manager = KernelManager(transport="ipc" if sys.platform == "linux" else "tcp")
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = [
        sys.executable,
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
    manager.start_kernel(env={**os.environ, "PYTHONPATH": import_path(), **environ})
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=30)
    try:
        run(client, "from fsdp_demo import spawn")
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    """Return a client of a kernel."""
    with running_kernel({}) as client:
        yield client
        processes = psutil.Process(kernel_pid(client)).children(recursive=True)
    _, alive = psutil.wait_procs(processes, timeout=3)
    assert alive == []


def kernel_pid(kernel: BlockingKernelClient) -> int:
    """Return the kernel's process."""
    return int(run(kernel, "import os; print(os.getpid())")["stdout"])


def run(kernel: BlockingKernelClient, source: str) -> dict[str, Any]:
    """Run a cell; return its streams, and its error if it has one."""
    result: dict[str, Any] = {"stdout": "", "stderr": ""}

    def take(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            result[content["name"]] += content["text"]
        elif message["msg_type"] == "error":
            result["error"] = content

    reply = kernel.execute_interactive(source, timeout=60, output_hook=take)
    return result | {"number": reply["content"]["execution_count"]}


def test_the_server_starts_with_the_first_import(kernel: BlockingKernelClient) -> None:
    out = run(
        kernel, "import psutil, sys; print(psutil.Process().children(), 'torch' in sys.modules)"
    )
    assert "python" in out["stdout"]
    assert out["stdout"].endswith(" False\n")


def test_a_cells_worker_runs_and_prints(kernel: BlockingKernelClient) -> None:
    run(kernel, "def worker(rank, world):\n    print('rank', rank)\n    return rank")
    out = run(kernel, "print(spawn(worker, 2))")
    assert (out["stdout"], out["stderr"]) == ("rank 0\nrank 1\n[0, 1]\n", "")


def test_an_error_is_shown_as_its_message_with_the_cells_lines(
    kernel: BlockingKernelClient,
) -> None:
    source = (
        "def helper(rank):\n"
        "    if rank == 1:\n"
        "        raise ValueError('no such layer')\n"
        "\n"
        "def worker(rank, world):\n"
        "    helper(rank)\n"
        "\n"
        "spawn(worker, 2)"
    )
    out = run(kernel, source)
    cell = f"Cell In[{out['number']}]"
    error = out["error"]
    assert error["ename"] == "RankError"
    assert error["evalue"] == "rank 1 raised ValueError: no such layer"
    assert "\n".join(error["traceback"]) == (
        "RankError: rank 1 raised ValueError: no such layer\n"
        "\n"
        f"{cell}, line 6, in worker\n"
        "        5 def worker(rank, world):\n"
        "---->   6     helper(rank)\n"
        "\n"
        f"{cell}, line 3, in helper\n"
        "        1 def helper(rank):\n"
        "        2     if rank == 1:\n"
        "---->   3         raise ValueError('no such layer')"
    )


def test_a_long_message_is_shown_in_lines_of_80_columns(kernel: BlockingKernelClient) -> None:
    """And kept in one line for a program; the reader's code stays as it is."""
    source = (
        "def worker(rank, world):\n"
        "    raise ValueError('no such layer, ' * 9)  # a remark that makes this line a long one"
        "\n\nspawn(worker, 2)"
    )
    error = run(kernel, source)["error"]
    message = f"ranks 0 and 1 raised ValueError: {'no such layer, ' * 9}".strip()
    assert error["evalue"] == message
    head, _, below = "\n".join(error["traceback"]).partition("\n\n")
    assert head.replace("\n   ", "") == f"RankError: {message}"
    assert max(map(len, head.split("\n"))) <= 80
    assert "remark that makes this line a long one" in below.split("\n")[2]


def test_a_crash_shows_the_cells_lines_too(kernel: BlockingKernelClient) -> None:
    source = "def worker(rank, world):\n    import os\n    os._exit(rank + 3)\n\nspawn(worker, 1)"
    text = "\n".join(run(kernel, source)["error"]["traceback"])
    assert text.startswith("RankError: rank 0 called os._exit(3)\n\nCell In[")
    assert "---->   3     os._exit(rank + 3)" in text


def test_a_bad_argument_is_one_line(kernel: BlockingKernelClient) -> None:
    error = run(kernel, "spawn(worker, 0)")["error"]
    assert error["traceback"] == ["SpawnError: world must be the number of ranks, 1 or more, not 0"]


def test_spawn_in_a_thread_works(kernel: BlockingKernelClient) -> None:
    source = (
        "def double(rank, world):\n    return 2 * rank\n"
        "import threading\n"
        "thread = threading.Thread(target=lambda: print(spawn(double, 2)))\n"
        "thread.start(); thread.join()"
    )
    assert run(kernel, source)["stdout"] == "[0, 2]\n"


def test_a_worker_sees_its_own_source(kernel: BlockingKernelClient) -> None:
    source = (
        "def quote(rank, world):\n    import inspect\n    return inspect.getsource(quote)\n"
        "print(spawn(quote, 1)[0])"
    )
    assert run(kernel, source)["stdout"].startswith("def quote(rank, world):\n    import inspect\n")


def test_an_interrupt_ends_the_ranks_and_the_next_cell_works(kernel: BlockingKernelClient) -> None:
    """As the notebook's stop button does it."""
    pid = kernel_pid(kernel)
    source = (
        "import os, signal, threading, time\n"
        "def hang(rank, world):\n    print('hangs')\n    time.sleep(1000)\n"
        "threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "spawn(hang, 2)"
    )
    out = run(kernel, source)
    assert out["error"]["ename"] == "KeyboardInterrupt"
    assert out["stdout"] == "hangs\nhangs\n"
    (server,) = psutil.Process(pid).children()
    assert server.children() == []
    assert run(kernel, "print(spawn(lambda rank, world: rank, 2))")["stdout"] == "[0, 1]\n"


def test_a_killed_kernel_takes_its_ranks_with_it(tmp_path: Path) -> None:
    """Ranks, what they started, the server, and its temporary folder."""
    with running_kernel({"TMPDIR": str(tmp_path)}) as client:
        pid = kernel_pid(client)
        client.execute(
            "def hang(rank, world):\n    import subprocess\n"
            "    subprocess.run(['sleep', '1000'])\n"
            "spawn(hang, 2)"
        )
        wait_for(lambda: len(psutil.Process(pid).children(recursive=True)) == 5, 30.0)
        started = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(started, timeout=3)
        assert alive == []
        wait_for(lambda: list(tmp_path.iterdir()) == [], 2.0)
