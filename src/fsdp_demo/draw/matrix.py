"""Who owns which number: a weight as a matrix, a unit as one line."""

import math
from collections.abc import Sequence
from itertools import groupby

from fsdp_demo.draw.svg import Canvas, Figure, rank_color
from fsdp_demo.records import Layout

CELL = 30  # pixels
GAP = 26


def draw_matrix(name: str, owners: Sequence[Sequence[int]]) -> Figure:
    """Draw a weight as a matrix, each number colored and numbered by the rank that holds it.

    A strong line marks the boundary between two ranks' numbers.

    Args:
        name: The weight's name.
        owners: For each row, for each column, the rank that holds the number there.

    """
    canvas = Canvas()
    top, left = 30, 4
    canvas.text(left, 12, name, bold=True)
    for i, row in enumerate(owners):
        for j, rank in enumerate(row):
            x, y = left + j * CELL, top + i * CELL
            canvas.box(x, y, CELL, CELL, fill=rank_color(rank))
            canvas.text(x + CELL / 2, y + CELL / 2, str(rank), anchor="middle")
    _mark_boundaries(canvas, owners, left, top)
    words = (f"row {i}: {_runs([f'rank {rank}' for rank in row])}" for i, row in enumerate(owners))
    return canvas.figure(f"{name}: the rank that holds each number", words)


def _mark_boundaries(
    canvas: Canvas, owners: Sequence[Sequence[int]], left: float, top: float
) -> None:
    for i, row in enumerate(owners):
        for j, rank in enumerate(row):
            x, y = left + j * CELL, top + i * CELL
            if j and row[j - 1] != rank:
                canvas.line([(x, y), (x, y + CELL)], strong=True)
            if i and owners[i - 1][j] != rank:
                canvas.line([(x, y), (x + CELL, y)], strong=True)


def find_owners(layout: Layout, name: str) -> list[list[int]]:
    """Return the rank that holds each number of an original parameter, row by row.

    A vector is one row. A hybrid's layout holds this rank's sharding group.

    Args:
        layout: From `fsdp_demo.layout.read_layout`, or a plan's.
        name: The parameter's name in the model.

    Raises:
        KeyError: no shard of the layout holds anything of that parameter.

    """
    held = {shard.rank: part for shard in layout.shards if (part := shard.slice_of(name))}
    if not held:
        msg = f"no shard of the layout holds anything of {name!r}"
        raise KeyError(msg)
    first = next(iter(held.values()))
    columns = first.shape[-1] if first.shape else 1
    flat = [0] * math.prod(first.shape)
    for rank, part in held.items():
        flat[part.start : part.stop] = [rank] * (part.stop - part.start)
    return [flat[start : start + columns] for start in range(0, len(flat), columns)]


def draw_line(parameters: Sequence[tuple[str, int]], shard_numel: int, world: int) -> Figure:
    """Draw a unit's flat parameter as one line, cut into shards, its padding hatched.

    Args:
        parameters: Name and numel of each original parameter, in the order of the flat parameter.
        shard_numel: Numbers on each rank, padding included.
        world: Ranks that the unit is sharded over.

    """
    numel = sum(count for _, count in parameters)
    cell = min(CELL, 600 / (shard_numel * world))
    canvas = Canvas()
    left, top = 4, 34
    position = 0
    for name, count in parameters:
        x = left + position * cell
        canvas.line(
            [
                (x + 2, top - 4),
                (x + 2, top - 9),
                (x + count * cell - 2, top - 9),
                (x + count * cell - 2, top - 4),
            ]
        )
        canvas.text(x + count * cell / 2, 13, name, anchor="middle")
        position += count
    words = []
    for rank in range(world):
        held = []
        for index in range(rank * shard_numel, (rank + 1) * shard_numel):
            x = left + index * cell
            padding = index >= numel
            held.append("padding" if padding else _parameter_at(parameters, index))
            if padding:
                canvas.hatch(x, top, cell, CELL)
                continue
            canvas.box(x, top, cell, CELL, fill=rank_color(rank))
            if cell > 12:  # noqa: PLR2004  # a number needs so much room
                canvas.text(x + cell / 2, top + CELL / 2, str(rank), anchor="middle")
        start = left + rank * shard_numel * cell
        if rank:
            canvas.line([(start, top - 3), (start, top + CELL + 3)], strong=True)
        canvas.text(
            start + shard_numel * cell / 2,
            top + CELL + 16,
            f"rank {rank}",
            anchor="middle",
            faint=True,
        )
        words.append(f"rank {rank}: {_runs(held)}")
    return canvas.figure("one flat parameter, cut into shards", words)


def _parameter_at(parameters: Sequence[tuple[str, int]], index: int) -> str:
    for name, count in parameters:
        if index < count:
            return name
        index -= count
    msg = f"the flat parameter has no number {index}"
    raise IndexError(msg)


def _runs(items: Sequence[str]) -> str:
    """Say a list in words, equal neighbors counted: ``2 of rank 0, 1 of rank 1``."""
    counted = ((item, len(list(group))) for item, group in groupby(items))
    return ", ".join(f"{count} of {item}" for item, count in counted)
