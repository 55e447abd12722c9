"""One step of training, event by event: which units are whole, and how much they hold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fsdp_demo.draw.svg import Canvas, Figure, rank_color, text_width
from fsdp_demo.records import MemoryEvent
from fsdp_demo.records.words import name_unit

COLUMN = 20  # pixels of one event
ROW = 24  # of one unit
CURVE = 52  # the height of the curve of bytes
SHOWN = {"gather": "g", "forward-start": "F", "backward-start": "B", "free": "f", "reduced": "r"}
LEGEND = ("g gathered, f freed, F forward, B backward", "r gradient reduce-scattered")


@dataclass(frozen=True, slots=True)
class _Track:
    """One strategy's events, and the column that each is drawn in."""

    name: str
    events: Sequence[MemoryEvent]
    columns: Sequence[int]


def draw_timelines(title: str, steps: Mapping[str, Sequence[MemoryEvent]]) -> Figure:
    """Draw one rank's step under each strategy, one above the other, aligned at the backward.

    A bar is a unit whose weights are whole, from its gather to its freeing. The curve below holds
    the bytes of whole weights.

    Args:
        title: One line that says what the figure shows.
        steps: For each strategy, the events of one step from `fsdp_demo.memory.record_memory`.

    """
    canvas = Canvas()
    canvas.text(4, 12, title, bold=True)
    shown = {name: [event for event in events if event.kind in SHOWN]
             for name, events in steps.items()}  # fmt: skip
    units = sorted({event.unit or "" for events in shown.values() for event in events})
    left = 16 + max(text_width(text) for text in (*map(name_unit, units), "bytes"))
    forward = max(sum(e.phase == "forward" for e in events) for events in shown.values())
    most = max(event.unsharded_nbytes for events in shown.values() for event in events)
    top = 26.0
    words: list[str] = []
    for name, events in shown.items():
        track = _Track(name, events, _place(events, forward))
        _draw_step(canvas, track, units, left, top)
        below = top + 38 + len(units) * ROW
        _draw_bytes(canvas, track, most, left, below)
        words += _say(name, events)
        top = below + CURVE + 22
    for line in LEGEND:
        canvas.text(left, top, line, faint=True)
        top += 17
    return canvas.figure(title, words)


def _place(events: Sequence[MemoryEvent], forward: int) -> list[int]:
    """Return each event's column; the backward starts in the same one under every strategy."""
    gap = forward - sum(event.phase == "forward" for event in events)
    return [i + (gap if event.phase != "forward" else 0) for i, event in enumerate(events)]


def _draw_step(
    canvas: Canvas, track: _Track, units: Sequence[str], left: float, top: float
) -> None:
    events, columns = track.events, track.columns
    canvas.text(4, top + 10, track.name, bold=True)
    end = left + (columns[-1] + 1) * COLUMN
    first = next(c for c, event in zip(columns, events, strict=True) if event.phase == "backward")
    middle = left + first * COLUMN
    canvas.text(left, top + 28, "forward", faint=True)
    canvas.text(middle + 4, top + 28, "backward", faint=True)
    top += 38
    canvas.line([(middle, top - 18), (middle, top + len(units) * ROW + CURVE + 8)])
    for index, unit in enumerate(units):
        y = top + index * ROW
        canvas.text(left - 10, y + ROW / 2, name_unit(unit), anchor="end")
        canvas.line([(left, y + ROW - 1), (end, y + ROW - 1)])
        start = None
        for column, event in zip(columns, events, strict=True):
            if event.unit == unit and event.kind == "gather":
                start = column
            if event.unit == unit and event.kind == "free" and start is not None:
                canvas.box(left + start * COLUMN, y + 2, (column - start + 1) * COLUMN, ROW - 6,
                           fill=rank_color(index), rounded=4)  # fmt: skip
                start = None
        if start is not None:
            canvas.box(left + start * COLUMN, y + 2, end - left - start * COLUMN, ROW - 6,
                       fill=rank_color(index), dashed=True)  # fmt: skip
        for column, event in zip(columns, events, strict=True):
            if event.unit == unit:
                canvas.text(left + (column + 0.5) * COLUMN, y + ROW / 2 - 1, SHOWN[event.kind],
                            anchor="middle", bold=event.kind in ("gather", "free"))  # fmt: skip


def _draw_bytes(canvas: Canvas, track: _Track, most: int, left: float, top: float) -> None:
    """Draw the bytes of whole weights as steps; the scale is the same under every strategy."""
    events, columns = track.events, track.columns
    bottom = top + CURVE
    canvas.text(left - 10, bottom - CURVE / 2, "bytes", anchor="end", faint=True)
    points = [(left, bottom)]
    last = 0
    for column, event in zip(columns, events, strict=True):
        x = left + column * COLUMN
        points.append((x, bottom - last / most * (CURVE - 14)))
        last = event.unsharded_nbytes
        points.append((x, bottom - last / most * (CURVE - 14)))
    points.append((left + (columns[-1] + 1) * COLUMN, points[-1][1]))
    canvas.line([(left, bottom), (points[-1][0], bottom)])
    canvas.line(points, strong=True)
    peak = max(event.unsharded_nbytes for event in events)
    at = next(c for c, e in zip(columns, events, strict=True) if e.unsharded_nbytes == peak)
    canvas.text(left + at * COLUMN + 4, bottom - peak / most * (CURVE - 14) - 8, f"{peak:,}")


def _say(name: str, events: Sequence[MemoryEvent]) -> Iterable[str]:
    yield f"{name}:"
    for phase in ("forward", "backward"):
        said = []
        for event in events:
            if event.phase == phase:
                whole = " ".join(map(name_unit, event.unsharded)) or "none"
                said.append(f"{event.kind} {name_unit(event.unit)} [{whole}]")
        yield f"  {phase}: {', '.join(said)}"
    yield f"  most bytes of whole weights: {max(event.unsharded_nbytes for event in events):,}"
