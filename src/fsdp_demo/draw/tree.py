"""The module tree, and what each unit owns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap

from fsdp_demo.draw.svg import Canvas, Figure, rank_color, text_width

ROW = 30
INDENT = 22
LINE = 18  # of a second line of owned names
COLUMNS = 26  # of owned names: more in a line would make the figure too wide for a telephone


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One module of the tree.

    Attributes:
        name: Its path from the root; the root's is ``root``.
        depth: How many modules it lies in.
        kind: Its class.
        owns: Names of the parameters of its flat parameter; None where it is no unit.

    """

    name: str
    depth: int
    kind: str
    owns: tuple[str, ...] | None


def draw_tree(title: str, rows: Sequence[TreeRow]) -> Figure:
    """Draw the module tree: units are boxes, with what they own beside them."""
    canvas = Canvas()
    canvas.text(4, 12, title, bold=True)
    label_x = 4 + max(
        row.depth * INDENT + text_width(f"{row.name} {row.kind}") + 46 for row in rows
    )
    owned = [wrap(_say_owned(row), COLUMNS, break_long_words=False) for row in rows]
    tops = list(accumulate((ROW + LINE * max(0, len(o) - 1) for o in owned), initial=28))
    words = []
    colored = 0
    for index, row in enumerate(rows):
        x, y = 4 + row.depth * INDENT, tops[index]
        label = f"{row.name} {row.kind}"
        middle = y + (ROW - 6) / 2
        if row.depth:
            parent = max(i for i in range(index) if rows[i].depth == row.depth - 1)
            below_parent = tops[parent] + ROW - 6
            canvas.line([(x - INDENT / 2, below_parent), (x - INDENT / 2, middle), (x, middle)])
        if row.owns is None:
            canvas.text(x + 6, middle, label, faint=True)
            continue
        words.append(f"unit {row.name} ({row.kind}) {_say_owned(row)}")
        color = rank_color(colored) if row.owns else "none"
        colored += bool(row.owns)
        canvas.box(
            x, y, text_width(label) + 16, ROW - 6, fill=color, rounded=5, dashed=not row.owns
        )
        canvas.text(x + 8, middle, label)
        for number, line in enumerate(owned[index]):
            canvas.text(label_x, middle + number * LINE, line, faint=not row.owns)
    return canvas.figure(title, words)


def _say_owned(row: TreeRow) -> str:
    if row.owns is None:
        return ""
    return f"owns {', '.join(row.owns)}" if row.owns else "owns nothing"
