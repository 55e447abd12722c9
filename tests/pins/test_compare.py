"""The verdict on a whole output, and the diff that is shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fsdp_demo.pins.cells import join_outputs
from fsdp_demo.pins.compare import find_drift, keep_allowed

TEXTS = st.text(alphabet="ab01. \n-\r\t'\"\\…", max_size=60)


def test_diff_shows_tolerated_lines_as_unchanged() -> None:
    want = "loss 0.30\ncount 1\nat ...\nend\n"
    got = "loss 0.31\ncount 2\nat 0x7f\nend\n"
    assert find_drift(want, got) == (
        "--- pin\n+++ this run\n@@ -1,4 +1,4 @@\n loss 0.30\n-count 1\n+count 2\n at ...\n end"
    )


def test_a_line_more_is_one_line_of_the_diff() -> None:
    drift = find_drift("a\nb 0.10\nc\n", "a\nnew\nb 0.11\nc\n")
    assert drift is not None
    assert drift.splitlines()[2:] == ["@@ -1,3 +1,4 @@", " a", "+new", " b 0.10", " c"]


def test_what_cannot_be_seen_is_written_out() -> None:
    drift = find_drift("a\nb\nc\n", "a \nb\r\nc")
    assert drift is not None
    assert drift.splitlines()[3:] == [
        "-a",
        "-b",
        "-c",
        "+a·",
        "+b\\r",
        "+c  (no newline at the end)",
    ]


def test_nothing_where_something_was_expected_is_a_drift() -> None:
    assert find_drift("a\n", "") == "--- pin\n+++ this run\n@@ -1 +0,0 @@\n-a"
    assert find_drift("", "") is None


@given(TEXTS)
def test_an_output_has_no_drift_from_itself(text: str) -> None:
    assert find_drift(text, text) is None


@given(TEXTS, TEXTS)
def test_what_is_accepted_is_found_to_hold(want: str, got: str) -> None:
    """Accepting keeps the pin's lines that hold; what comes out allows what was printed."""
    assert find_drift(keep_allowed(want, got), got) is None


@given(TEXTS, TEXTS)
def test_a_drift_is_never_shown_as_an_empty_diff(want: str, got: str) -> None:
    drift = find_drift(want, got)
    assert drift is None or drift.count("\n") >= 3


def test_long_outputs_are_compared_in_time() -> None:
    want = "".join(f"row {row}\n" for row in range(3000))
    drift = find_drift(want, want.replace("row 7\n", "row seven\n").replace("row 2990\n", ""))
    assert drift is not None
    assert "+row seven" in drift


def test_outputs_are_joined_in_order() -> None:
    """Pieces of stdout as they are; a value on a line of its own; a picture by its text."""
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": "a"},
        {"output_type": "stream", "name": "stderr", "text": "careful"},
        {"output_type": "stream", "name": "stdout", "text": "b"},
        {"output_type": "display_data", "data": {"image/png": "…", "text/plain": "<Figure>"}},
        {"output_type": "display_data", "data": {"image/svg+xml": "…"}},
        {"output_type": "execute_result", "data": {"text/plain": "3"}},
    ]
    assert join_outputs(outputs) == ("ab\n<Figure>\n3\n", "careful", None)
