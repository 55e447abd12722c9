"""Times that lie far apart, on a scale where each line is ten times the one before it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fsdp_demo.draw.svg import Canvas, Figure, rank_color

LINE = 400  # pixels from the scale's left end to its right
ROW = 44  # of one row: its name above its marks
RADIUS = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """One time, with the shortest and the longest that were seen, in seconds."""

    series: str
    value_s: float
    least_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """What was timed, and its marks, one for each series."""

    name: str
    marks: tuple[Mark, ...]


def draw_scale(title: str, rows: Sequence[ScaleRow]) -> Figure:
    """Draw times as marks on a logarithmic scale: what counts is where they lie, not a length.

    The first series is drawn as rings, the second as discs. A line through a mark reaches from the
    shortest time that was seen to the longest.

    Args:
        title: One line that says what the figure shows.
        rows: From top to bottom; all with the same series, two at most.

    Raises:
        ValueError: a time is not above zero, or there are more series than looks.
    """
    times = [time for row in rows for mark in row.marks for time in (mark.least_s, mark.most_s)]
    series = list(dict.fromkeys(mark.series for row in rows for mark in row.marks))
    if not times or min(times) <= 0 or len(series) > 2:  # noqa: PLR2004  # a ring and a disc
        msg = "a scale needs times above zero, in two series at most"
        raise ValueError(msg)
    first, last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    last = max(last, first + 1)
    left, top = 28.0, 30.0

    def place(time_s: float) -> float:
        return left + (math.log10(time_s) - first) / (last - first) * LINE

    canvas = Canvas()
    canvas.text(4, 12, title, bold=True)
    bottom = top + len(rows) * ROW
    for power in range(first, last + 1):
        x = place(10.0**power)
        for index in range(len(rows)):  # beside the marks, and not through the names
            y = top + index * ROW
            canvas.line([(x, y + 20), (x, y + ROW - 4)])
        canvas.text(x, bottom + 12, show_seconds(10.0**power), anchor="middle", faint=True)
    for index, row in enumerate(rows):
        y = top + index * ROW
        canvas.text(left, y + 10, row.name)
        values = ", ".join(show_seconds(mark.value_s) for mark in row.marks)
        canvas.text(left + LINE, y + 10, values, anchor="end", faint=True)
        for mark in row.marks:
            canvas.line([(place(mark.least_s), y + 30), (place(mark.most_s), y + 30)], strong=True)
        for mark in row.marks:
            look = series.index(mark.series)
            canvas.dot(place(mark.value_s), y + 30, RADIUS, rank_color(look), filled=look == 1)
    for look, name in enumerate(series):
        x = left + 6 + look * 90
        canvas.dot(x, bottom + 34, RADIUS, rank_color(look), filled=look == 1)
        canvas.text(x + 12, bottom + 34, name)
    canvas.text(left, bottom + 54, "each line is ten times the one to its left", faint=True)
    return canvas.figure(title, [_say(row) for row in rows])


def show_seconds(time_s: float) -> str:
    """Write a time with three digits, or more where they stand before the point."""
    return f"{time_s:,.0f} s" if time_s >= 100 else f"{time_s:.3g} s"  # noqa: PLR2004  # three digits


def _say(row: ScaleRow) -> str:
    said = (
        f"{mark.series} {show_seconds(mark.value_s)}"
        f" ({show_seconds(mark.least_s)} to {show_seconds(mark.most_s)})"
        for mark in row.marks
    )
    return f"{row.name}: {', '.join(said)}"
