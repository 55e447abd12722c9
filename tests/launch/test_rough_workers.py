"""Workers and callers that are rough with what the launcher stands on: files, streams, forks."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from fsdp_demo import RankError, SpawnError, spawn
from fsdp_demo.launch.client import Shared, discard_server
from fsdp_demo.launch.side import Side
from tests.launch import workers
from tests.processes import import_path

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_trace")

MANY_FILES = """
import os, resource
from fsdp_demo import spawn

resource.setrlimit(resource.RLIMIT_NOFILE, (1200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]

def work(rank, world):
    return rank

if __name__ == "__main__":
    print(spawn(work, 2))
"""
NO_FORK = """
import errno, os, sys

def fork():
    raise OSError(errno.EAGAIN, "no room for another process")

if any(argument.endswith("preload.py") for argument in sys.orig_argv):
    os.fork = fork
"""
TWO_RANKS = """
from fsdp_demo import spawn

def work(rank, world):
    return rank

if __name__ == "__main__":
    spawn(work, 2)
"""


def run_script(source: str, tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    script = tmp_path / "script.py"
    script.write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="which files a rank has open is known for Linux"
)
def test_a_worker_that_closes_all_files_is_blamed_and_harms_no_other() -> None:
    spawn(workers.add_up, 2)
    server = Shared.client
    with pytest.raises(RankError) as caught:
        spawn(workers.close_all, 3)
    assert str(caught.value) == "rank 1 ended with exit status 1 before its worker returned"
    assert spawn(workers.add_up, 2) == [1.0, 1.0]
    assert Shared.client is server


@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("raises", 1), ("exits", 3)])
def test_a_process_that_a_worker_forks_does_not_speak_as_the_rank(
    how: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert spawn(workers.fork_one, 2, how) == [code, code]
    assert ("[rank 1] ValueError: in the child" in capfd.readouterr().err) == (how == "raises")


def test_a_stdout_that_cannot_be_flushed_changes_nothing() -> None:
    assert spawn(workers.break_stdout, 2) == [0, 1]


def test_a_tensor_without_data_is_torchs_own_business() -> None:
    assert spawn(workers.reduce_nothing, 2) == [None, None]


def test_a_fault_between_joining_and_the_worker_is_heard() -> None:
    side = Side(0)
    for message in ({"kind": "joined"}, {"kind": "raised"}):
        blob = pickle.dumps(message)
        side.theirs.sendall(struct.pack("!Q", len(blob)) + blob)
    side.hear()
    side.close()
    assert side.has_joined
    assert side.is_at_fault


def test_a_temporary_folder_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rendezvous is a file there, and nowhere else."""
    folder = tmp_path / "here" / "a#b?c=%41 d"
    folder.mkdir(parents=True)
    discard_server()
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        assert spawn(workers.add_up, 2) == [1.0, 1.0]
        discard_server()
    assert list((tmp_path / "here").iterdir()) == [folder]
    assert list(folder.iterdir()) == []


def test_a_caller_whose_temporary_folder_was_cleared_hears_of_it_and_gets_another() -> None:
    spawn(workers.add_up, 2)
    assert Shared.client is not None
    shutil.rmtree(Shared.client.folder)
    with pytest.raises(SpawnError, match="no folder can be made for the ranks in "):
        spawn(workers.add_up, 2)
    assert spawn(workers.add_up, 2) == [1.0, 1.0]


def test_a_caller_with_a_thousand_open_files(tmp_path: Path) -> None:
    done = run_script(MANY_FILES, tmp_path)
    assert (done.stdout, done.stderr) == ("[0, 1]\n", "")


def test_ranks_that_cannot_be_forked_are_a_message(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_FORK, encoding="utf-8")
    done = run_script(TWO_RANKS, tmp_path, PYTHONPATH=import_path(str(tmp_path)))
    assert "rank 0 can't be forked: no room for another process" in done.stderr


def test_a_rank_that_holds_up_the_beginning_is_blamed_alone() -> None:
    with pytest.raises(RankError) as caught:
        spawn(workers.take, 3, workers.HoldsUp(), timeout_s=2.0)
    summary = "rank 1 was still joining the process group after 2 s (timeout_s)"
    assert str(caught.value) == summary


def test_a_disagreement_that_torch_finds_itself_names_the_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch raises it in every rank; which is heard first is luck."""
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    discard_server()
    with pytest.raises(RankError) as caught:
        spawn(workers.disagree, 4, "shape")
    discard_server()
    assert (caught.value.kind, caught.value.rank) == ("mismatch", 3)


def test_asking_ranks_where_they_are_takes_no_signal_that_a_worker_uses() -> None:
    assert spawn(workers.use_sigusr1, 2) == [[], []]


def test_an_error_that_ends_whoever_reads_it_is_named() -> None:
    with pytest.raises(RankError) as caught:
        spawn(workers.raise_unspeakable, 2)
    assert str(caught.value) == (
        "rank 1 raised UnspeakableError: <its message can't be had: SystemExit>"
    )
