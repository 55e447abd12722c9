"""The record of a run: what happened, each event from its own witness, in an order without luck."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from fsdp_demo import RankError, spawn
from fsdp_demo.launch.events import (
    HEARD,
    PHASES,
    Asked,
    Recording,
    order_events,
    record_events,
)
from tests.launch import workers

if TYPE_CHECKING:
    from fsdp_demo.launch.events import Key
    from fsdp_demo.records import Event

pytestmark = pytest.mark.usefixtures("no_trace")


def record(worker: object, *args: object) -> list[str]:
    with record_events() as events:
        spawn(worker, 2, *args)  # type: ignore[arg-type]  # a worker
    return [str(event) for event in events]


def test_a_run_is_recorded_from_the_call_to_the_return() -> None:
    assert record(workers.add_up) == [
        "your kernel: pickling the worker",
        "your kernel -> fork server: fork rank 0",
        "your kernel -> fork server: fork rank 1",
        "fork server -> rank 0: rank 0 begins",
        "fork server -> rank 1: rank 1 begins",
        "rank 0, rank 1: loading the worker",
        "rank 0, rank 1 together: joining the process group",
        "rank 0, rank 1: running the worker",
        "rank 0, rank 1 together: all_reduce of (2,) float32",
        "rank 0, rank 1: pickling the return value",
        "rank 0 -> your kernel: rank 0 has returned",
        "rank 1 -> your kernel: rank 1 has returned",
        "your kernel -> rank 0: rank 0, leave",
        "your kernel -> rank 1: rank 1, leave",
        "fork server -> your kernel: rank 0 ended: status 0",
        "fork server -> your kernel: rank 1 ended: status 0",
        "your kernel -> fork server: end all that is left",
        "fork server -> your kernel: nothing is left",
        "your kernel: showing rank 0's output",
        "your kernel: showing rank 1's output",
        "your kernel: returning the values",
    ]


def test_the_order_does_not_depend_on_which_rank_is_late() -> None:
    assert record(workers.come_late, 0) == record(workers.come_late, 1)


def test_what_is_heard_in_another_order_is_recorded_the_same() -> None:
    """Each time that the caller hears several things between two acts of its own, turned round."""
    with record_events() as events:
        recording = Asked.recording
        spawn(workers.add_up, 2)
    assert recording is not None
    turned = []
    for is_heard, noted in itertools.groupby(recording.noted.items(), was_heard):
        in_order = list(noted)
        turned += in_order[::-1] if is_heard else in_order
    assert turned != list(recording.noted.items())
    assert order_events(Recording(dict(turned), recording.steps)) == events


def was_heard(noted: tuple[Key, Event]) -> bool:
    return PHASES[noted[0][0]] in (*HEARD, "forked")


def test_ranks_that_do_different_things_have_rows_of_their_own() -> None:
    events = record(workers.send_on)
    assert "rank 0: send" in events
    assert "rank 1: recv" in events
    assert "rank 0, rank 1: running the worker" in events


def test_nothing_is_recorded_where_nobody_asks() -> None:
    with record_events() as events:
        pass
    spawn(workers.add_up, 2)
    assert events == []
    assert Asked.recording is None


def test_a_fault_is_raised_through_the_record() -> None:
    with pytest.raises(RankError), record_events() as events:
        spawn(workers.all_raise, 2)
    assert events == []
    assert Asked.recording is None


def test_a_second_call_is_refused() -> None:
    with pytest.raises(ValueError, match="records one call of spawn, not 2"), record_events():
        assert [spawn(workers.add_up, 1), spawn(workers.add_up, 1)] == [[0.0], [0.0]]
