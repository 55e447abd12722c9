"""A figure: what was measured, in which unit, and the bar it is held to."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    Attributes:
        name: Unique in a run; pages and the JSON file know it by that.
        what: A few words for a table.
        unit: "s", "MB" or RATIO.
        at_most: The bar; None where there is none.
        least: The smallest sample, in the same unit; None where the figure is no median.
        most: The largest.
        rounds: How many samples there were.
    """

    name: str
    what: str
    value: float
    unit: str
    at_most: float | None = None
    least: float | None = None
    most: float | None = None
    rounds: int = 1

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is met; None where there is no bar."""
        return None if self.at_most is None else self.value <= self.at_most


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that could not be measured here, and why."""

    name: str
    what: str
    reason: str


def take_median(
    name: str, what: str, unit: str, samples: Sequence[float], at_most: float | None = None
) -> Figure:
    """Make a figure of samples taken in the same circumstances.

    Raises:
        ValueError: there is no sample.
    """
    if not samples:
        raise ValueError(f"no sample of {name}")
    return Figure(
        name, what, median(samples), unit, at_most, min(samples), max(samples), len(samples)
    )


def take_ratio(
    name: str, what: str, above: Figure, below: Figure, at_most: float | None = None
) -> Figure:
    """Make the ratio of two figures of the same run and the same unit.

    Raises:
        ValueError: their units differ.
    """
    if above.unit != below.unit:
        raise ValueError(f"{name}: {above.unit} over {below.unit} is no ratio")
    return Figure(
        name,
        what,
        above.value / below.value,
        RATIO,
        at_most,
        rounds=min(above.rounds, below.rounds),
    )


def show(value: float, unit: str) -> str:
    """Write a number of a figure: three digits, or more where they stand before the point."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
    return digits if unit == RATIO else f"{digits} {unit}"


def show_spread(least: float, most: float) -> str:
    """Write from where to where the samples of a figure reach."""
    return f"{show(least, RATIO)} to {show(most, RATIO)}"
