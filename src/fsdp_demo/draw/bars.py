"""Amounts as bars: several groups on one scale, each bar of one part or more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fsdp_demo.draw.svg import Canvas, Figure, rank_color, text_width

LENGTH = 190  # pixels of the longest bar
HEIGHT = 16
ROW = 22
HEAD = 26  # a group's name


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        label: What it is the amount of.
        parts: Its parts' amounts, in one unit for the whole figure.
        text: The amounts as a reader is to read them, beside the bar and in the figure's words.

    """

    label: str
    parts: tuple[float, ...]
    text: str


def draw_bars(
    title: str, groups: Mapping[str, Sequence[Bar]], legend: Sequence[str] = ()
) -> Figure:
    """Draw groups of bars below each other, all on one scale that begins at zero.

    Args:
        title: One line that says what the figure shows.
        groups: For each group's name, its bars.
        legend: A name for each part, where a bar has several.

    Raises:
        ValueError: a bar has an amount below zero, or another number of parts than the legend has.

    """
    bars = [bar for group in groups.values() for bar in group]
    for bar in bars:
        if min(bar.parts) < 0 or len(bar.parts) != (len(legend) or 1):
            raise ValueError(f"bar {bar.label!r} has parts {bar.parts}; the legend is {legend}")
    scale = LENGTH / (max(sum(bar.parts) for bar in bars) or 1)
    left = 14 + max(text_width(bar.label) for bar in bars)
    canvas = Canvas()
    canvas.text(4, 12, title, bold=True)
    top = 28.0
    for index, name in enumerate(legend):
        canvas.box(4, top, HEIGHT, HEIGHT, fill=rank_color(index), dashed=index > 0)
        canvas.text(10 + HEIGHT, top + HEIGHT / 2, name, faint=True)
        top += ROW
    words = []
    for group, members in groups.items():
        canvas.text(4, top + HEAD / 2, group)
        top += HEAD
        for bar in members:
            _draw_bar(canvas, bar, left, top, scale)
            words.append(f"{group}, {bar.label}: {bar.text}")
            top += ROW
    return canvas.figure(title, words)


def _draw_bar(canvas: Canvas, bar: Bar, left: float, top: float, scale: float) -> None:
    canvas.text(left - 8, top + HEIGHT / 2, bar.label, anchor="end", faint=True)
    x = left
    for index, amount in enumerate(bar.parts):
        if amount:
            # A part that is too small to see is drawn as a line.
            width = max(amount * scale, 1)
            canvas.box(x, top, width, HEIGHT, fill=rank_color(index), dashed=index > 0)
            x += width
    canvas.text(x + 6, top + HEIGHT / 2, bar.text)
