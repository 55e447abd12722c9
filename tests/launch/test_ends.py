"""How a run ends from outside: an interrupt, a killed caller; each seen from another process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from tests.processes import are_gone, wait_for

HANGING = """
import os, subprocess, sys, time
from fsdp_demo import spawn

def hang(rank, world):
    near = subprocess.Popen(["sleep", "1000"])
    far = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print(near.pid, far.pid, file=open(sys.argv[1] + f"/{rank}", "w"))
    time.sleep(1000)

def add(rank, world):
    import torch.distributed as dist
    numbers = [None] * world
    dist.all_gather_object(numbers, rank)
    return numbers

assert "torch" not in sys.modules
try:
    spawn(hang, 2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(spawn(add, 2), flush=True)
assert "torch" not in sys.modules
"""


def start(tmp_path: Path, source: str) -> subprocess.Popen[str]:
    """Start a script, its temporary files in a folder of the test's."""
    tmp_path.mkdir(exist_ok=True)
    script = tmp_path / "script.py"
    script.write_text(source, encoding="utf-8")
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "temporary").mkdir()
    return subprocess.Popen(
        [sys.executable, str(script), str(marks)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        start_new_session=True,
    )


def wait_for_ranks(process: subprocess.Popen[str], tmp_path: Path) -> list[psutil.Process]:
    """Wait until both ranks hang; return all that must go: the server, ranks, their children."""
    marks = [tmp_path / "marks" / str(rank) for rank in range(2)]
    wait_for(lambda: all(mark.exists() and mark.read_text().endswith("\n") for mark in marks))
    processes: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
    assert len(processes) == 7
    return processes


def test_an_interrupt_ends_the_ranks_and_the_next_call_works(tmp_path: Path) -> None:
    process = start(tmp_path, HANGING)
    server, *ranks = wait_for_ranks(process, tmp_path)
    process.send_signal(signal.SIGINT)
    assert wait_for(lambda: are_gone(ranks)) < 1.0
    out, _ = process.communicate(timeout=30)
    assert out == "interrupted\n[[0, 1], [0, 1]]\n"
    assert process.returncode == 0
    wait_for(lambda: are_gone([server]))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_ranks_go_with_a_killed_caller(tmp_path: Path) -> None:
    process = start(tmp_path, HANGING)
    processes = wait_for_ranks(process, tmp_path)
    process.kill()
    process.communicate(timeout=30)
    assert wait_for(lambda: are_gone(processes)) < 2.0
    wait_for(lambda: list((tmp_path / "temporary").iterdir()) == [], 2.0)


def test_two_callers_at_once_do_not_meet(tmp_path: Path) -> None:
    """Each has its own ranks; one that is killed takes none of the other's with it."""
    first = start(tmp_path / "first", HANGING)
    second = start(tmp_path / "second", HANGING)
    firsts = wait_for_ranks(first, tmp_path / "first")
    server, *ranks = wait_for_ranks(second, tmp_path / "second")
    first.kill()
    first.communicate(timeout=30)
    assert wait_for(lambda: are_gone(firsts)) < 2.0
    assert all(process.is_running() for process in (server, *ranks))
    second.send_signal(signal.SIGINT)
    out, _ = second.communicate(timeout=30)
    assert out == "interrupted\n[[0, 1], [0, 1]]\n"
    wait_for(lambda: are_gone([server, *ranks]))


def test_a_killed_server_is_named_and_replaced(tmp_path: Path) -> None:
    source = HANGING.replace(
        "except KeyboardInterrupt:", "except Exception as error:\n    print(error)"
    )
    process = start(tmp_path, source)
    server, *ranks = wait_for_ranks(process, tmp_path)
    server.kill()
    out, _ = process.communicate(timeout=40)
    assert out == (
        "the process that forks the ranks has ended: it said nothing\n"
        "interrupted\n[[0, 1], [0, 1]]\n"
    )
    # What is in no rank's session any more can't be found without the server.
    far = [int((tmp_path / "marks" / str(rank)).read_text().split()[1]) for rank in range(2)]
    for pid in far:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: are_gone(ranks))


def test_a_script_shows_the_message_below_its_traceback(tmp_path: Path) -> None:
    source = """
from fsdp_demo import spawn

def worker(rank, world):
    raise ValueError("no such layer")

if __name__ == "__main__":
    spawn(worker, 2)
"""
    process = start(tmp_path, source)
    out, _ = process.communicate(timeout=40)
    assert process.returncode == 1
    assert out.count("Traceback") == 1
    assert out.endswith(
        "fsdp_demo.RankError: ranks 0 and 1 raised ValueError: no such layer\n"
        "\n"
        "script.py, line 5, in worker\n"
        "        4 def worker(rank, world):\n"
        '---->   5     raise ValueError("no such layer")\n'
    )


ALONE = ["unshare", "--map-root-user", "--net", "--uts", "--mount"]
SET_UP = "ip link set lo up && hostname nowhere-at-all"


def command_alone(folder: Path, set_up: str, command: str) -> list[str]:
    """Return a command that runs on what looks like a machine of its own; `$1` is a new file."""
    return [*ALONE, "sh", "-c", f"{set_up} && {command}", "sh", str(folder / "hosts")]


def can_be_alone(set_up: str) -> bool:
    """Return whether this machine, and its owner, allow that."""
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = command_alone(Path(folder), set_up, "true")
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run_alone(folder: Path, set_up: str, source: str) -> tuple[str, str]:
    """Run a script there; return what it prints to stdout and stderr."""
    script = folder / "script.py"
    script.write_text(source, encoding="utf-8")
    done = subprocess.run(
        command_alone(folder, set_up, f'exec "{sys.executable}" "{script}"'),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.skipif(
    not can_be_alone(SET_UP),
    reason="a network of its own takes Linux's unshare and ip, and the permission",
)
def test_on_a_machine_with_loopback_only_and_a_name_that_resolves_to_nothing(
    tmp_path: Path,
) -> None:
    outcome = run_alone(
        tmp_path,
        SET_UP,
        """
import socket
from fsdp_demo import spawn

def add(rank, world):
    import torch.distributed as dist
    numbers = [None] * world
    dist.all_gather_object(numbers, rank)
    return numbers

assert [name for _, name in socket.if_nameindex()] == ["lo"]
try:
    socket.gethostbyname(socket.gethostname())
except OSError:
    print(spawn(add, 2))
""",
    )
    assert outcome == ("[[0, 1], [0, 1]]\n", "")


ELSEWHERE = (
    "ip link set lo up && ip link add one type veth peer name other"
    " && ip address add 10.9.8.7/24 dev one && ip link set one up && ip link set other up"
    ' && echo "10.9.8.7 elsewhere" > "$1" && mount --bind "$1" /etc/hosts && hostname elsewhere'
)


@pytest.mark.skipif(
    not can_be_alone(ELSEWHERE), reason="a network of its own takes Linux's unshare and ip"
)
def test_on_a_machine_whose_name_resolves_to_another_interface(tmp_path: Path) -> None:
    """Where gloo, left alone, would listen."""
    outcome = run_alone(
        tmp_path,
        ELSEWHERE,
        """
import socket
from fsdp_demo import spawn

def listen(rank, world):
    import psutil, torch.distributed as dist
    dist.barrier()
    found = {c.laddr.ip for c in psutil.Process().net_connections() if c.status == "LISTEN"}
    dist.barrier()
    return found

assert socket.gethostbyname(socket.gethostname()) == "10.9.8.7"
print(spawn(listen, 2))
""",
    )
    assert outcome == ("[{'127.0.0.1'}, {'127.0.0.1'}]\n", "")


def test_under_torchrun_the_same_script_is_a_rank(tmp_path: Path) -> None:
    """Two calls one after the other; every rank has the whole list."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import sys
from fsdp_demo import SpawnError, spawn

def worker(rank, world, factor):
    import torch, torch.distributed as dist
    numbers = torch.ones(1) * rank
    dist.all_reduce(numbers)
    return factor * rank + float(numbers[0])

values = [spawn(worker, 2, factor) for factor in (10, 100)]
try:
    spawn(worker, 3, 1)
except SpawnError as error:
    sys.stdout.write(f"{values} {error}\\n")
""",
        encoding="utf-8",
    )
    port = str(20_000 + os.getpid() % 10_000)
    where = [
        "--nnodes",
        "1",
        "--nproc-per-node",
        "2",
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        port,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *where, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )
    line = "[[1.0, 11.0], [1.0, 101.0]] spawn asks for 3 ranks, but torchrun has started 2"
    assert done.stdout.splitlines() == [line, line]
