from __future__ import annotations

import pytest

from fsdp_demo import RankError, spawn
from tests.launch import workers

pytestmark = pytest.mark.usefixtures("no_trace")


def stall_of(*args: object, world: int = 3) -> RankError:
    """Return the error of a run that would hang; it is found, and not left to the timeout."""
    with pytest.raises(RankError) as caught:
        spawn(*args[:1], world, *args[1:])  # type: ignore[arg-type]  # the worker
    assert caught.value.kind != "timeout"
    return caught.value


def test_a_skipped_collective() -> None:
    error = stall_of(workers.misbehave, "skip the last")
    assert str(error) == "rank 1 returned, but ranks 0 and 2 still wait in all_reduce"
    assert (error.kind, error.rank) == ("stalled", 1)
    assert "The last one of rank 1 was all_reduce of (3,) float32:" in error.details
    assert "Ranks 0 and 2 wait here:\ntests/launch/workers.py" in error.details


def test_a_rank_that_issues_no_collective() -> None:
    error = stall_of(workers.misbehave, "return early")
    assert str(error) == "rank 1 returned, but ranks 0 and 2 still wait in all_reduce"
    assert "Rank 1 issued none." in error.details


def test_an_asynchronous_collective() -> None:
    error = stall_of(workers.wait_asynchronously)
    assert str(error) == "rank 1 returned, but ranks 0 and 2 still wait in all_reduce"
    assert "work.wait()" in error.details


def test_ranks_that_wait_for_each_other() -> None:
    error = stall_of(workers.cross_sends, world=2)
    assert str(error) == "no rank goes on: ranks 0 and 1 wait in recv"
    assert error.details.count("dist.recv(") == 1


@pytest.mark.parametrize("how", ["sleep", "child", "thread"])
def test_a_rank_that_takes_its_time_is_no_stall(how: str) -> None:
    spawn(workers.take_time, 2, how)


ALL_REDUCE = "all_reduce of (4,) float32"
DISAGREEMENTS = [
    ("kind", "all_gather of (4,) float32", ALL_REDUCE),
    ("shape", "all_reduce of (5,) float32", ALL_REDUCE),
    ("dtype", "all_reduce of (4,) float64", ALL_REDUCE),
    ("root", "broadcast of (4,) float32 from rank 1", "broadcast of (4,) float32 from rank 0"),
    (
        "silent shape",
        "broadcast of (5,) float32 from rank 0",
        "broadcast of (4,) float32 from rank 0",
    ),
]


@pytest.mark.parametrize(("how", "odd", "usual"), DISAGREEMENTS, ids=[d[0] for d in DISAGREEMENTS])
def test_ranks_that_disagree_are_named(how: str, odd: str, usual: str) -> None:
    """Whether gloo hangs, aborts or goes on with wrong numbers."""
    error = stall_of(workers.disagree, how)
    assert str(error) == f"rank 2 issued {odd} where ranks 0 and 1 issued {usual}"
    assert (error.kind, error.rank) == ("mismatch", 2)
    assert "collective 1 of the group of ranks 0 to 2" in error.details


def test_a_rank_that_returned_rightly_is_not_blamed() -> None:
    """Rank 1 has its numbers and returns; rank 2 has skipped, and rank 0 waits for it."""
    error = stall_of(workers.disagree, "skip a broadcast")
    assert str(error) == "rank 2 returned, but rank 0 still waits in broadcast"
    assert error.rank == 2


def test_a_skip_that_gloo_lets_pass() -> None:
    error = stall_of(workers.disagree, "skip what nobody waits for")
    assert str(error) == f"rank 2 issued no collective where ranks 0 and 1 issued {ALL_REDUCE}"


def test_what_may_differ_is_no_disagreement() -> None:
    assert spawn(workers.agree, 4) == [4.0, 4.0, 2.0, 2.0]
