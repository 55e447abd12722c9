"""Draw who holds which part of each flat parameter, at any size."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fsdp_demo.draw.svg import FONT, Canvas, Figure, number, rank_color, text_width
from fsdp_demo.records.words import name_unit

if TYPE_CHECKING:
    from fsdp_demo.planner.result import Plan
    from fsdp_demo.records import Unit

WIDTH = 380.0  # pixels, of a flat parameter: a telephone shows it at its full size
BAR = 22.0
ROW = 74.0
MOST_SHARDS = 64  # more are too narrow to be told apart


def draw_shards(plan: Plan) -> Figure:
    """Draw each flat parameter as a bar: its parameters above, cut into shards, padding hatched.

    All bars are as long, whatever their numel; the text beside each says it.  In a group of more
    than 64 ranks the shards are not drawn one by one.
    """
    canvas = Canvas()
    canvas.text(4, 12, "each flat parameter, cut into shards", bold=True)
    words = []
    units = [unit for unit in plan.units if unit.flat_parameter is not None]
    for index, unit in enumerate(units):
        words.append(_draw_unit(canvas, unit, 36 + index * ROW))
    return canvas.figure("the shards of each flat parameter", words)


def write_svg(figure: Figure) -> str:
    """Return a figure as a file of its own, black on white and the reverse in the dark."""
    size = f'width="{number(figure.width)}" height="{number(figure.height)}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}'
        f' viewBox="0 0 {number(figure.width)} {number(figure.height)}"'
        f' font-family="sans-serif" font-size="{FONT}">'
        "<style>svg{color:#111;background:#fff}"
        "@media(prefers-color-scheme:dark){svg{color:#eee;background:#111}}</style>"
        f"<title>{escape(figure.title)}</title><desc>{escape('; '.join(figure.words))}</desc>"
        f"{figure.body}</svg>\n"
    )


def _draw_unit(canvas: Canvas, unit: Unit, top: float) -> str:
    """Draw one bar; return what it shows in words."""
    flat = unit.flat_parameter
    assert flat is not None  # noqa: S101  # the caller left the others out
    scale = WIDTH / flat.numel_padded
    shards = flat.numel_padded // flat.shard_numel
    whole = shards == 1
    many = "whole on each rank" if whole else f"{shards} shards of {flat.shard_numel:,}"
    label = f"{name_unit(unit.name)}: {flat.numel_padded:,} {flat.dtype}, {many}"
    canvas.text(4, top, label)
    bar = top + 26
    for parameter in flat.parameters:
        start, stop = 4 + parameter.offset * scale, 4 + (parameter.offset + parameter.numel) * scale
        canvas.line([(start, bar - 3), (start, bar - 7), (stop, bar - 7), (stop, bar - 3)])
        name = parameter.name.removeprefix(f"{unit.name}.")
        if text_width(name) < stop - start:
            canvas.text((start + stop) / 2, bar - 13, name, anchor="middle", faint=True)
    if 1 < shards <= MOST_SHARDS:
        width = flat.shard_numel * scale
        for index, rank in enumerate(unit.ranks):
            canvas.box(4 + index * width, bar, width, BAR, fill=rank_color(rank))
            if text_width(str(rank)) < width:
                canvas.text(4 + (index + 0.5) * width, bar + BAR / 2, str(rank), anchor="middle")
    else:
        canvas.box(4, bar, WIDTH, BAR)
    for gap in flat.padding:
        canvas.hatch(4 + gap.start * scale, bar, (gap.stop - gap.start) * scale, BAR)
    padding = f"{flat.padding_numel:,} of them padding"
    return f"{label}, {padding}; ranks {unit.ranks[0]} to {unit.ranks[-1]}"
