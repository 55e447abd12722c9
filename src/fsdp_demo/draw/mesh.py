"""A 2-D mesh of ranks, and which collective runs in which group."""

from collections.abc import Mapping, Sequence

from fsdp_demo.draw.svg import Canvas, Figure, rank_color, text_width

SIZE = 40  # pixels of a rank's box
ROW = 120
MARGIN = 22  # of a node around its ranks: room for a line above and two below the connection
LINE = 18


def draw_mesh(
    title: str, mesh: Sequence[Sequence[int]], traffic: Mapping[tuple[int, ...], Sequence[str]]
) -> Figure:
    """Draw each row of the mesh as a node, and write each group's collectives on its line.

    Args:
        title: One line that says what the figure shows.
        mesh: Ranks by row and column. A row is a node; a column replicates across nodes.
        traffic: For each group of ranks, lines such as ``3 all-gathers``. A group is one row or
            one column of the mesh.

    Raises:
        ValueError: a group is neither a row nor a column of the mesh.

    """
    canvas = Canvas()
    canvas.text(4, 12, title, bold=True)
    rows = [tuple(row) for row in mesh]
    columns = list(zip(*rows, strict=True))
    widest = max((text_width(line) for lines in traffic.values() for line in lines), default=0)
    pitch = max(widest + 20, SIZE) + SIZE
    left, top = 84, 46
    for i, row in enumerate(rows):
        y = top + i * ROW
        canvas.box(
            left - 14,
            y - MARGIN,
            (len(row) - 1) * pitch + SIZE + 28,
            SIZE + 2 * MARGIN,
            dashed=True,
            rounded=8,
        )
        canvas.text(left - 22, y + SIZE / 2, f"node {i}", anchor="end", faint=True)
    words = []
    for group, lines in traffic.items():
        words.append(f"in {{{', '.join(map(str, group))}}}: {', '.join(lines)}")
        if group in rows:
            i = rows.index(group)
            middle = top + i * ROW + SIZE / 2
            right = left + (len(group) - 1) * pitch
            canvas.line([(left + SIZE, middle), (right, middle)], strong=True)
            _write(canvas, left + SIZE + (pitch - SIZE) / 2, middle, lines)
        elif group in columns:
            j = columns.index(group)
            x = left + j * pitch + SIZE / 2
            y = top + SIZE
            canvas.line([(x, y), (x, top + (len(rows) - 1) * ROW)], strong=True)
            canvas.text(x + 8, y + (ROW - SIZE) / 2, ", ".join(lines))
        else:
            msg = f"group {group} is neither a row nor a column of the mesh {rows}"
            raise ValueError(msg)
    for i, row in enumerate(rows):
        for j, rank in enumerate(row):
            x, y = left + j * pitch, top + i * ROW
            canvas.box(x, y, SIZE, SIZE, fill=rank_color(rank), rounded=5, strong=True)
            canvas.text(x + SIZE / 2, y + SIZE / 2, str(rank), anchor="middle", bold=True)
    return canvas.figure(title, words)


def _write(canvas: Canvas, x: float, y: float, lines: Sequence[str]) -> None:
    """Write the lines above and below a connection, so that it runs between them."""
    for index, line in enumerate(lines):
        offset = -11 if index == 0 else 11 + (index - 1) * LINE
        canvas.text(x, y + offset, line, anchor="middle")
