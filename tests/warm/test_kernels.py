"""A kernel that is forked from the warm process is what an ordinary one is."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from tests.processes import wait_for
from tests.warm.conftest import Kernel, Warm, start_warm

if TYPE_CHECKING:
    from pathlib import Path

IS_WARM = "import sys; print('torch' in sys.modules)"

WHAT_IS_SEEN = """
import torch, torch.distributed.fsdp
import hashlib, os, random, signal, sys, threading
import numpy as np

ours = os.path.dirname(os.environ["TMPDIR"])  # torch adds a folder there
path = [folder for folder in sys.path if not folder.startswith(ours)]
environ = {name: value for name, value in os.environ.items() if name != "JPY_PARENT_PID"}
print(sys.argv[:-1], path, sys.flags)
print(sorted(environ.items()), os.getcwd(), os.getpgrp() == os.getsid(0) == os.getpid())
print([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)])
print(__name__, len(threading.enumerate()))
print(torch.get_num_threads())
numbers = torch.linspace(-1, 1, 512 * 512).reshape(512, 512)
for product in (numbers @ numbers, torch.tensor(numbers.numpy() @ numbers.numpy())):
    print(hashlib.sha256(product.numpy().tobytes()).hexdigest())
torch.manual_seed(0); np.random.seed(0); random.seed(0)
print(torch.rand(1).item(), np.random.rand(), random.random())
"""

SPAWN = """
import fsdp_demo

def add(rank, world):
    import torch, torch.distributed as dist
    numbers = torch.ones(1) * rank
    dist.all_reduce(numbers)
    print("rank", rank, torch.get_num_threads(), torch.rand(1).item())
    return numbers.item()

print(fsdp_demo.spawn(add, 2))
"""


def test_it_sees_what_an_ordinary_one_sees(warm: Warm) -> None:
    with warm.kernel() as kernel, warm.plain_kernel() as plain:
        assert (kernel.run(IS_WARM), plain.run(IS_WARM)) == ("True\n", "False\n")
        seen = kernel.run(WHAT_IS_SEEN)
        assert seen.count("\n") == 8
        assert seen == plain.run(WHAT_IS_SEEN)


def test_its_ranks_are_those_of_an_ordinary_one(warm: Warm) -> None:
    with warm.kernel() as kernel, warm.plain_kernel() as plain:
        printed = kernel.run(SPAWN)
        assert printed.startswith("rank 0 1 0.")
        assert printed.endswith("[1.0, 1.0]\n")
        assert printed == plain.run(SPAWN)
        # One server, and not one that was started anew.
        (server,) = psutil.Process(kernel.pid).children()
        assert server.cmdline() == psutil.Process(warm.process.pid).cmdline()


def test_a_fault_of_a_rank_is_named(warm: Warm) -> None:
    source = (
        "import fsdp_demo\n"
        "def fail(rank, world):\n    if rank == 1:\n        raise ValueError('no such layer')\n"
        "fsdp_demo.spawn(fail, 2)"
    )
    with warm.kernel() as kernel:
        assert kernel.run(source) == "RankError: rank 1 raised ValueError: no such layer"
        assert kernel.run("print(fsdp_demo.spawn(lambda rank, world: rank, 2))") == "[0, 1]\n"


def test_where_a_rank_waits_is_shown_from_the_workers_first_line_on(warm: Warm) -> None:
    source = (
        "import fsdp_demo, torch.distributed as dist\n"
        "def skip(rank, world):\n    if rank == 0:\n        dist.barrier()\n"
        "try:\n    fsdp_demo.spawn(skip, 2)\n"
        "except fsdp_demo.RankError as error:\n    print(error.details)\n"
    )
    with warm.kernel() as kernel:
        printed = kernel.run(source)
    assert "4         dist.barrier()" in printed
    assert "fsdp_demo" not in printed


def test_two_at_once_share_nothing(warm: Warm) -> None:
    """Neither random numbers nor files; the second was forked while the first ran."""
    draw = (
        "import random, numpy, torch\n"
        "print(random.random(), numpy.random.rand(), torch.rand(1).item(), torch.initial_seed())"
    )
    count = "import os; print(len(os.listdir('/proc/self/fd')))"
    with warm.kernel() as first, warm.kernel() as second:
        assert first.run("number = 1") == ""
        assert second.run("number").startswith("NameError")
        drawn = f"{first.run(draw)} {second.run(draw)}".split()
        assert len(set(drawn)) == 8
        assert first.run(count) == second.run(count)


def test_an_interrupt_reaches_the_cell_and_the_next_one_works(warm: Warm) -> None:
    with warm.kernel() as kernel:
        threading.Timer(1.0, kernel.manager.interrupt_kernel).start()
        assert kernel.run("import time; time.sleep(30)").startswith("KeyboardInterrupt")
        assert kernel.run("print(1)") == "1\n"


def test_an_interrupt_ends_the_ranks(warm: Warm) -> None:
    source = "import fsdp_demo, time; fsdp_demo.spawn(lambda rank, world: time.sleep(60), 2)"
    with warm.kernel() as kernel:
        threading.Timer(1.5, kernel.manager.interrupt_kernel).start()
        assert kernel.run(source).startswith("KeyboardInterrupt")
        (server,) = psutil.Process(kernel.pid).children()
        assert server.children() == []
        assert kernel.run("print(fsdp_demo.spawn(lambda rank, world: rank, 2))") == "[0, 1]\n"


@pytest.mark.parametrize(
    ("how", "status"),
    [("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", -signal.SIGKILL), ("os.abort()", -6)],
)
def test_it_ends_for_jupyter_as_it_ended(warm: Warm, how: str, status: int) -> None:
    with warm.kernel() as kernel:
        kernel.client.execute(f"import os, resource; {how}")
        assert kernel.process.wait(20) == status


def test_it_listens_on_loopback_only(warm: Warm) -> None:
    with warm.kernel() as kernel:
        kernel.run(SPAWN)
        below = psutil.Process(warm.process.pid).children(recursive=True)
        assert len(below) == 2
        listening = [
            connection.laddr.ip
            for process in (psutil.Process(warm.process.pid), *below)
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert set(listening) == {"127.0.0.1"}


def test_the_next_one_sees_an_edit(tmp_path: Path) -> None:
    """Of a module of this project too: the warm process has imported none of them."""
    module = tmp_path / "lesson_helper.py"
    module.write_text("WORLD = 2\n")
    seen = (
        "import lesson_helper; print(lesson_helper.WORLD, {m for m in sys.modules if 'demo' in m})"
    )
    with start_warm(PYTHONPATH=str(tmp_path)) as warm:
        with warm.kernel() as kernel:
            assert kernel.run(IS_WARM) == "True\n"
            assert kernel.run(seen) == "2 {'_fsdp_demo_handed_server'}\n"
        module.write_text("from other_helper import WORLD\n")
        (tmp_path / "other_helper.py").write_text("WORLD = 4000\n")
        with warm.kernel() as kernel:
            assert kernel.run(IS_WARM) == "True\n"
            assert kernel.run(seen).startswith("4000 ")


def check_ordinary(kernel: Kernel) -> None:
    assert kernel.run(IS_WARM) == "False\n"
    assert kernel.run(SPAWN).endswith("[1.0, 1.0]\n")


def test_in_another_environment_it_is_an_ordinary_one(warm: Warm) -> None:
    with warm.kernel(OMP_NUM_THREADS="1") as kernel:
        check_ordinary(kernel)


def test_without_a_warm_process_it_is_an_ordinary_one(warm: Warm, tmp_path: Path) -> None:
    with warm.kernel(FSDP_DEMO_WARM=str(tmp_path)) as kernel:
        check_ordinary(kernel)
    with warm.kernel(FSDP_DEMO_WARM=str(tmp_path / "gone")) as kernel:
        check_ordinary(kernel)


def test_when_the_warm_process_has_died_it_is_an_ordinary_one() -> None:
    with start_warm() as warm:
        warm.process.kill()
        warm.process.wait()
        with warm.kernel() as kernel:
            check_ordinary(kernel)
        for left in warm.folder.iterdir():
            left.unlink()
        warm.folder.rmdir()


@pytest.mark.parametrize("line", ["print('a warning')", "raise ImportError('broken')"])
def test_what_an_import_has_to_say_is_left_to_an_ordinary_one(tmp_path: Path, line: str) -> None:
    (tmp_path / "resource.py").write_text(f"{line}\n")
    with start_warm(PYTHONPATH=str(tmp_path)) as warm, warm.kernel() as kernel:
        assert kernel.run(IS_WARM) == "False\n"


def test_the_warm_process_imports_at_the_first_request() -> None:
    with start_warm() as warm:
        process = psutil.Process(warm.process.pid)
        wait_for(lambda: process.status() == psutil.STATUS_SLEEPING)
        assert process.memory_info().rss < 40_000_000
