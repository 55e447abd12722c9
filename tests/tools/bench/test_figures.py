from __future__ import annotations

import pytest

from tools.bench.figures import RATIO, Figure, show, take_median, take_ratio


def test_a_figure_is_the_median_with_its_spread() -> None:
    figure = take_median("cell", "a cell", "s", [0.3, 0.1, 9.0, 0.2])
    assert figure.value == pytest.approx(0.25)
    assert (figure.least, figure.most, figure.rounds) == (0.1, 9.0, 4)


def test_no_sample_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no sample of cell"):
        take_median("cell", "a cell", "s", [])


def test_a_ratio_is_of_the_medians() -> None:
    """One slow round of either moves it no more than it moves the medians."""
    ours = take_median("a", "", "s", [1.0, 2.0, 50.0])
    theirs = take_median("b", "", "s", [4.0, 8.0, 8.0])
    ratio = take_ratio("a-to-b", "", ours, theirs, 0.25)
    assert (ratio.value, ratio.unit, ratio.is_met) == (0.25, RATIO, True)


def test_seconds_over_megabytes_are_refused() -> None:
    seconds, megabytes = Figure("a", "", 1.0, "s"), Figure("b", "", 1.0, "MB")
    with pytest.raises(ValueError, match="s over MB is no ratio"):
        take_ratio("a-to-b", "", seconds, megabytes)


def test_a_bar_is_met_up_to_itself_and_no_further() -> None:
    assert Figure("a", "", 0.8, RATIO, at_most=0.8).is_met is True
    assert Figure("a", "", 0.8001, RATIO, at_most=0.8).is_met is False
    assert Figure("a", "", 0.8, RATIO).is_met is None


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.02796, RATIO, "0.028"),
        (0.8044, RATIO, "0.804"),  # not "0.8", which a bar of 0.8 would seem to be met by
        (5.518, "s", "5.52 s"),
        (153.6, "s", "154 s"),
        (83.27, "MB", "83.3 MB"),
    ],
)
def test_three_digits_are_shown(value: float, unit: str, shown: str) -> None:
    assert show(value, unit) == shown
