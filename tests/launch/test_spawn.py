from __future__ import annotations

import contextlib
import os
import threading
import zlib
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest
import torch

from fsdp_demo import RankError, describe_setting, spawn
from fsdp_demo.launch.events import record_events
from fsdp_demo.launch.setting import torch_version
from tests.launch import workers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_trace")


def test_returns_values_in_rank_order() -> None:
    assert spawn(workers.add_up, 3, 1.0) == [6.0, 6.0, 6.0]
    assert [point.x for point in spawn(lambda rank, _: workers.Point(rank), 2)] == [0, 1]


def test_prints_in_rank_order(capfd: pytest.CaptureFixture[str]) -> None:
    """Stdout as it is, stderr apart and with the rank."""
    spawn(workers.late_first, 3)
    out, err = capfd.readouterr()
    assert out == "rank 0 of 3\nrank 1 of 3\nrank 2 of 3\n"
    assert err == "[rank 0] a remark of 0\n[rank 1] a remark of 1\n[rank 2] a remark of 2\n"


def test_catches_what_python_did_not_print(capfd: pytest.CaptureFixture[str]) -> None:
    spawn(workers.print_oddly, 2)
    out, err = capfd.readouterr()
    lines = "from C++\nfrom a child\n\N{REPLACEMENT CHARACTER} half a line\n"
    assert out == f"from C\npython 0\n{lines}from C\npython 1\n{lines}"
    assert err == ""


def test_rank_finds_its_group_and_the_callers_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_READERS_VARIABLE", "7")
    for facts in spawn(workers.facts, 2):
        assert facts.pop("private_mb") <= 20
        assert facts == {
            "rank": True,
            "world": True,
            "backend": "gloo",
            "threads": 1,
            "interface": "lo",
            "cwd": str(tmp_path),
            "variable": "7",
            "listening": ["127.0.0.1"],
        }
    assert "GLOO_SOCKET_IFNAME" not in os.environ


def test_ranks_draw_different_numbers_the_same_each_time() -> None:
    first = spawn(workers.draw, 2)
    assert spawn(workers.draw, 2) == first
    assert not set(first[0]) & set(first[1])


def test_objects_of_the_callers_own_classes_can_be_gathered() -> None:
    assert spawn(workers.gather_points, 2) == [[0, 1], [0, 1]]


def test_what_a_worker_started_goes_with_it() -> None:
    """Children in the rank's session and out of it, after a good run and after a fault."""
    numbers = spawn(workers.start_others, 2)
    assert not any(psutil.pid_exists(number) for rank in numbers for number in rank)
    with pytest.raises(RankError, match="rank 1 raised ValueError: with children"):
        spawn(workers.start_others, 3)  # the fixture looks for what is left


def test_a_rank_that_aborts_at_its_end_is_in_the_record() -> None:
    """So the comparison with other launchers, which counts such ends, would see one of ours."""
    with record_events() as events:
        spawn(workers.abort_at_the_end, 2)
    ends = [event.what for event in events if " ended: " in event.what]
    assert ends == ["rank 1 ended: status -6", "rank 0 ended: status 0"]


def test_nothing_listens_beyond_loopback_at_any_moment() -> None:
    """Looked at all through several runs, in this process and all that it has started."""
    spawn(workers.add_up, 1)
    seen: set[str] = set()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    for connection in process.net_connections("inet"):
                        if connection.status == psutil.CONN_LISTEN:
                            seen.add(connection.laddr.ip)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for late in (0, 1, 0, 1):
            spawn(workers.come_late, 2, late)
    finally:
        is_over.set()
        watcher.join()
    assert seen == {"127.0.0.1"}


def test_a_large_argument_reaches_every_rank() -> None:
    """All ranks read it from one file at the same time."""
    large = os.urandom(5_000_000)
    assert spawn(workers.measure, 8, large) == [zlib.crc32(large)] * 8


def test_threads_take_turns() -> None:
    results: list[list[float]] = []
    threads = [
        threading.Thread(
            target=lambda start: results.append(spawn(workers.add_up, 2, start)), args=(i,)
        )
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[1.0, 1.0], [3.0, 3.0], [5.0, 5.0]]


def test_many_ranks() -> None:
    assert spawn(workers.add_up, 16) == [120.0] * 16


def test_a_forked_copy_of_the_caller_has_a_server_of_its_own() -> None:
    spawn(workers.add_up, 1)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if spawn(workers.add_up, 2) == [1.0, 1.0] else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert spawn(workers.add_up, 2) == [1.0, 1.0]


def test_says_what_the_setting_is(capsys: pytest.CaptureFixture[str]) -> None:
    version, build = torch_version()
    assert torch.__version__.startswith(version)
    cuda = torch.version.cuda
    assert build == ("cpu" if cuda is None else "cu" + cuda.replace(".", ""))
    describe_setting(2)
    assert capsys.readouterr().out == f"torch {version} ({build} build), gloo on CPU, world 2\n"
