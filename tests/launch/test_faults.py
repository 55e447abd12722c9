from __future__ import annotations

import inspect
import threading

import pytest

from fsdp_demo import RankError, SpawnError, spawn
from tests.launch import workers

pytestmark = pytest.mark.usefixtures("no_trace")


def fault_of(*args: object, world: int = 3, timeout_s: float = 30.0) -> RankError:
    """Return the error that `spawn` raises."""
    with pytest.raises(RankError) as caught:
        spawn(*args[:1], world, *args[1:], timeout_s=timeout_s)  # type: ignore[arg-type]  # the worker
    return caught.value


def line_of(worker: object, text: str) -> str:
    """Return how a message shows the worker's line that holds `text`."""
    lines, first = inspect.getsourcelines(worker)  # type: ignore[arg-type]  # a function
    at = next(i for i, line in enumerate(lines) if text in line)
    return f"----> {first + at:>3} {lines[at].rstrip()}"


FAULTS = [
    # what rank 1 does, kind, summary, the line that is shown
    ("raise before", "raised", "rank 1 raised ValueError: no such layer", '"no such layer"'),
    (
        "raise inside",
        "raised",
        "rank 1 raised TypeError in all_reduce: Invalid",
        "dist.all_reduce(no_tensor)",
    ),
    ("raise after", "raised", "rank 1 raised ValueError: after the first", '"after the first"'),
    ("sys.exit", "raised", "rank 1 called sys.exit(3)", "sys.exit(3)"),
    ("os._exit", "died", "rank 1 called os._exit(3)", "os._exit(3)"),
    ("SIGKILL", "died", "rank 1 killed itself with SIGKILL", "os.kill(os.getpid()"),
    ("SIGSEGV", "died", "rank 1 crashed with SIGSEGV", "ctypes.string_at(0)"),
    ("killed from outside", "died", "rank 1 was killed by SIGKILL (perhaps", "dist.barrier()"),
    ("out of memory", "raised", "can't allocate memory", "torch.empty(10**9)"),
    ("caught", "raised", "rank 1 raised RuntimeError: first line …", 'layers["encoder"]'),
]


@pytest.mark.parametrize(("how", "kind", "summary", "line"), FAULTS, ids=[f[0] for f in FAULTS])
def test_fault_names_the_rank_and_shows_its_line(
    how: str, kind: str, summary: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What was printed before is shown."""
    error = fault_of(workers.misbehave, how)
    assert (error.kind, error.rank) == (kind, 1)
    assert summary in str(error)
    assert "\n" not in str(error)
    assert "tests/launch/workers.py, line " in error.details
    assert line_of(workers.misbehave, line) in error.details
    assert "site-packages" not in error.details
    assert "launch/rank.py" not in error.details
    assert capfd.readouterr().out.startswith("rank 0 begins\nrank 1 begins\nrank 2 begins\n")


def test_a_rank_that_ends_at_once_finds_all_others_in_the_group(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Or a peer could fail to join, and its worker would not begin."""
    for _ in range(10):
        assert str(fault_of(workers.leave_at_once, world=8)) == "rank 1 called os._exit(3)"
        out, err = capfd.readouterr()
        assert out == "".join(f"rank {rank} begins\n" for rank in range(8) if rank != 1)
        assert "connectFullMesh" not in err


def test_a_chain_of_exceptions_is_shown_whole() -> None:
    details = fault_of(workers.misbehave, "caught").details
    assert "KeyError: 'encoder'\n\nThat was the direct cause of:" in details
    assert details.endswith("RuntimeError: first line\nsecond line")


@pytest.mark.parametrize("how", ["raises", "raises late", "another is led to", "another exits"])
def test_an_error_that_another_led_to_is_not_blamed(how: str) -> None:
    """Rank 1 takes its connection with it; rank 0 complains, by an error of its own or its end."""
    error = fault_of(workers.leave_others, how, world=2)
    assert str(error) == "rank 1 raised ValueError: no such layer"


def test_a_rank_that_leaves_the_group_and_returns_is_blamed() -> None:
    error = fault_of(workers.leave_others, "returns", world=2)
    assert (error.kind, error.rank) == ("mismatch", 1)
    assert (
        str(error) == "rank 1 issued no collective where rank 0 issued all_reduce of (1,) float32"
    )


def test_ranks_with_the_same_fault_are_named_together() -> None:
    error = fault_of(workers.all_raise)
    assert str(error) == "ranks 0 to 2 raised KeyError: 'weight'"
    assert error.rank == 0


def test_a_loop_ends_at_the_timeout() -> None:
    error = fault_of(workers.misbehave, "loop", timeout_s=1.5)
    assert str(error) == "rank 1 was still running the worker after 1.5 s (timeout_s)"
    assert (error.kind, error.rank) == ("timeout", 1)
    assert [frame.name for frame in error.frames] == ["misbehave", "loop_for_ever"]
    assert "Ranks 0 and 2 wait here:" in error.details


def test_a_value_that_cannot_be_pickled() -> None:
    error = fault_of(workers.misbehave, "unpicklable")
    assert str(error) == (
        "rank 1 returned a value that can't be pickled: TypeError: cannot pickle 'generator' object"
    )
    assert (error.kind, error.details) == ("return value", "")


def test_a_value_that_cannot_be_loaded() -> None:
    error = fault_of(workers.return_unloadable, world=2)
    assert (error.kind, error.rank) == ("return value", 1)
    assert str(error) == (
        "rank 1 returned a value that can't be loaded here:"
        " ValueError: invalid literal for int() with base 10: 'many'"
    )


def test_a_worker_that_cannot_be_pickled() -> None:
    lock = threading.Lock()
    with pytest.raises(SpawnError) as caught:
        spawn(lambda rank, world: lock.locked(), 2)  # noqa: ARG005  # spawn's form
    assert str(caught.value).endswith(
        "<lambda> or its arguments can't be pickled for the ranks:"
        " TypeError: cannot pickle '_thread.lock' object"
    )


def test_a_flood_of_output_is_a_fault(capfd: pytest.CaptureFixture[str]) -> None:
    error = fault_of(workers.misbehave, "flood")
    assert (error.kind, error.rank) == ("output", 1)
    assert str(error) == "rank 1 printed more than 10 MB to stdout"
    out = capfd.readouterr().out
    assert len(out) < 20_000
    assert "[… the rest is not shown]\nrank 2 begins\n" in out


def test_nested_spawn_is_refused() -> None:
    error = fault_of(workers.spawn_inside, world=2)
    assert str(error) == (
        "ranks 0 and 1 raised SpawnError:"
        " spawn was called inside a rank: a rank can't start ranks of its own"
    )


def test_a_worker_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module exists here only."""
    monkeypatch.setattr(workers.add_up, "__module__", "tests.launch.workers_gone")
    monkeypatch.setitem(__import__("sys").modules, "tests.launch.workers_gone", workers)
    error = fault_of(workers.add_up, world=2)
    assert str(error).startswith(
        "ranks 0 and 1 failed while loading the worker: ModuleNotFoundError"
    )


def test_after_a_fault_the_next_call_works() -> None:
    fault_of(workers.misbehave, "os._exit")
    assert spawn(workers.add_up, 2) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((workers.add_up, 0), "world must be the number of ranks, 1 or more, not 0"),
        ((workers.add_up, True), "world must be the number of ranks, 1 or more, not True"),
        ((workers.add_up, "2"), "world must be the number of ranks, 1 or more, not '2'"),
        (("worker", 2), "worker must be a function worker(rank, world, …), not 'worker'"),
        ((lambda: None, 2), "does not fit its call: too many positional arguments"),
        ((workers.disagree, 2), "does not fit its call: missing a required argument: 'how'"),
        ((workers.add_up, 2, (n for n in "123")), "can't be pickled for the ranks: TypeError"),
    ],
)
def test_bad_arguments_get_one_line(args: tuple[object, ...], message: str) -> None:
    with pytest.raises(SpawnError) as caught:
        spawn(*args)  # type: ignore[arg-type]  # that is the fault
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("timeout_s", [0, -1.0, "60", float("nan"), float("inf")])
def test_a_bad_timeout_gets_one_line(timeout_s: float) -> None:
    with pytest.raises(SpawnError, match="timeout_s must be a number of seconds above 0"):
        spawn(workers.add_up, 1, timeout_s=timeout_s)
