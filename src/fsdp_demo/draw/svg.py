"""The drawing vocabulary that all figures share.

A figure is an SVG element inside the page, and not an image file, so that its text takes the
page's color in light and dark, stays sharp at any size and can be selected. Shapes are filled with
half-transparent colors that keep the page's text readable on top of them. A color never stands
alone: whatever it says, a letter, a number or a pattern says too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from textwrap import wrap

# Okabe and Ito's palette, which people with any of the common kinds of color blindness can tell
# apart. Black and its yellow are left out: one vanishes in the dark, the other in the light.
RANK_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

COLUMNS = 78  # of a figure said in words: a page shows 80 without scrolling
FONT = 13  # pixels, at the figure's natural size
LETTER = 7.4  # mean width of a letter at that size


def rank_color(rank: int) -> str:
    """Return the color of a rank; the seventh rank starts over, and its number tells it apart."""
    return RANK_COLORS[rank % len(RANK_COLORS)]


def text_width(text: str) -> float:
    """Estimate the width of a line of text, in pixels."""
    return len(text) * LETTER


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and what it says in words.

    In a notebook and on a page it shows as the drawing. Its text is the words, so that a pin of
    the cell that shows it is a pin of its data, and a reader who can't see it is told the same.

    Attributes:
        title: One line that says what the figure shows.
        words: Lines that say everything that is drawn.
        width: Pixels at its natural size.
        height: Likewise.
        body: The SVG elements, as text.

    """

    title: str
    words: tuple[str, ...]
    width: float
    height: float
    body: str

    def __repr__(self) -> str:
        """Return the figure in words: this is what a pin holds."""
        lines = [self.title]
        for line in self.words:
            margin = "  " + line[: len(line) - len(line.lstrip())]
            lines += wrap(
                line.strip(), COLUMNS, initial_indent=margin, subsequent_indent=margin + "  "
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the figure as an element of the page, for a notebook to show."""
        return (
            f'<figure class="fsdp-figure">'
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 '
            f'{number(self.width)} {number(self.height)}" width="{number(self.width)}"'
            f' style="max-width:100%;height:auto" font-family="inherit" font-size="{FONT}">'
            f"<title>{escape(self.title)}</title>"
            f"<desc>{escape('; '.join(self.words))}</desc>"
            f"{self.body}</svg></figure>"
        )


def number(value: float) -> str:
    """Write a coordinate with one decimal at the most, the same on every machine."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(slots=True)
class Canvas:
    """Collects shapes, in the order they are drawn, and how far they reach.

    Attributes:
        width: The right edge of what was drawn so far, in pixels.
        height: The lower edge.

    """

    width: float = 0
    height: float = 0
    elements: list[str] = field(default_factory=list)

    def box(  # noqa: PLR0913  # a rectangle has four numbers, and a look
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        dashed: bool = False,
        rounded: float = 0,
        strong: bool = False,
    ) -> None:
        """Draw a rectangle; `fill` is a color, or ``none``."""
        opacity = "" if fill == "none" else ' fill-opacity="0.32"'
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        corner = f' rx="{number(rounded)}"' if rounded else ""
        weight = "1.8" if strong else "1"
        self.elements.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}"'
            f' height="{number(height)}"{corner} fill="{fill}"{opacity} stroke="currentColor"'
            f' stroke-opacity="{0.9 if strong else 0.45}" stroke-width="{weight}"{dash}/>'
        )
        self._reach(x + width, y + height)

    def hatch(self, x: float, y: float, width: float, height: float) -> None:
        """Hatch a rectangle from corner to corner: numbers that are padding."""
        self.box(x, y, width, height)
        for start in (0.0, 0.5):
            self.line([(x + start * width, y + height), (x + width, y + start * height)])
            if start:
                self.line([(x, y + start * height), (x + start * width, y)])

    def line(self, points: Iterable[tuple[float, float]], *, strong: bool = False) -> None:
        """Draw straight lines from point to point."""
        listed = list(points)
        path = " ".join(f"{number(x)},{number(y)}" for x, y in listed)
        weight = "2.4" if strong else "1"
        self.elements.append(
            f'<polyline points="{path}" fill="none" stroke="currentColor"'
            f' stroke-opacity="{0.9 if strong else 0.4}" stroke-width="{weight}"/>'
        )
        for x, y in listed:
            self._reach(x, y)

    def dot(self, x: float, y: float, radius: float, color: str, *, filled: bool) -> None:
        """Draw a disc, or a ring through which what lies below is seen."""
        self.elements.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{color}"'
            f' fill-opacity="{1 if filled else 0}" stroke="{color}" stroke-width="2.4"/>'
        )
        self._reach(x + radius, y + radius)

    def text(  # noqa: PLR0913  # a line of text has a place and a look
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        bold: bool = False,
        faint: bool = False,
    ) -> None:
        """Write a line of text; `y` is its middle, `anchor` start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        opacity = ' fill-opacity="0.75"' if faint else ""
        self.elements.append(
            f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
            f' dominant-baseline="central" fill="currentColor"{weight}{opacity}>'
            f"{escape(text)}</text>"
        )
        width = text_width(text)
        right = {"start": x + width, "middle": x + width / 2, "end": x}[anchor]
        self._reach(right, y + FONT / 2)

    def figure(self, title: str, words: Iterable[str]) -> Figure:
        """Close the drawing: add a margin, and say in words what it shows."""
        return Figure(title, tuple(words), self.width + 8, self.height + 8, "".join(self.elements))

    def _reach(self, x: float, y: float) -> None:
        self.width = max(self.width, x)
        self.height = max(self.height, y)
