"""Who does what in a run of several processes, and who tells whom: a sequence diagram.

It shows order and cause, and no time: a row comes after the rows that it needed, and the distance
between two rows means nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.draw.svg import Canvas, Figure, rank_color, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.records import Event

ROW = 23  # pixels of one event
PITCH = 46  # from lane to lane
BOX = 12  # of something done on a lane
HEAD = 5  # of an arrow
TOP = 68  # of the first row, below the lanes' names


def draw_sequence(title: str, lanes: Sequence[str], events: Sequence[Event]) -> Figure:
    """Draw one row an event: what it is, and on the lanes who did it, or said it to whom.

    A box is something that a process did by itself; boxes that a strong line joins needed each
    other. An arrow is something said. A lane that is first spoken to begins there.

    Args:
        title: One line that says what the figure shows.
        lanes: The processes from left to right, as the events name them.
        events: In the order of their rows.

    Raises:
        ValueError: an event is of a process that has no lane.

    """
    strange = {name for event in events for name in _touched(event)} - set(lanes)
    if strange:
        msg = f"no lane for {', '.join(sorted(strange))}"
        raise ValueError(msg)
    canvas = Canvas()
    canvas.text(4, 12, title, bold=True)
    left = 4 + max(text_width(event.what) for event in events) + PITCH / 2
    at = {name: left + number * PITCH for number, name in enumerate(lanes)}
    for name, x in at.items():
        _draw_lane(canvas, name, x, events)
    for number, event in enumerate(events):
        y = TOP + number * ROW
        canvas.text(4, y, event.what)
        if event.to is not None:
            _draw_arrow(canvas, at[event.by[0]], at[event.to], y)
            continue
        xs = [at[name] for name in event.by]
        if event.is_joint:
            canvas.line([(min(xs), y), (max(xs), y)], strong=True)
        for name, x in zip(event.by, xs, strict=True):
            canvas.box(x - BOX / 2, y - BOX / 2, BOX, BOX, fill=_color(name), strong=True)
    return canvas.figure(title, map(str, events))


def _touched(event: Event) -> tuple[str, ...]:
    return event.by if event.to is None else (*event.by, event.to)


def _draw_lane(canvas: Canvas, name: str, x: float, events: Sequence[Event]) -> None:
    """Write a lane's name, one word a line, and draw its line from its first row to its last."""
    for number, word in enumerate(name.split()):
        canvas.text(x, 32 + 15 * number, word, anchor="middle")
    rows = [number for number, event in enumerate(events) if name in _touched(event)]
    if rows:
        canvas.line([(x, TOP + rows[0] * ROW), (x, TOP + rows[-1] * ROW)])


def _draw_arrow(canvas: Canvas, start: float, end: float, y: float) -> None:
    back = HEAD if end < start else -HEAD
    canvas.line([(start, y), (end, y)], strong=True)
    canvas.line([(end + back, y - HEAD), (end, y), (end + back, y + HEAD)], strong=True)


def _color(name: str) -> str:
    """Return a rank's color; other processes have none."""
    word, _, number = name.partition(" ")
    return rank_color(int(number)) if word == "rank" and number.isdecimal() else "none"
