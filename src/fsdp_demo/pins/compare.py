"""Compare what a cell printed with its pin.

The two texts are laid side by side, line by line.  A line that its pin allows counts as unchanged,
in the verdict and in the diff alike, so that a diff shows what is to be reviewed and no noise.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from fsdp_demo.pins.lines import DEFAULT_REL, match_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_PAIRS = 250_000  # above it, lines are paired by position: the table would take seconds
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CONTEXT_LINES = 2


def find_drift(want: str, got: str, rel: float = DEFAULT_REL) -> str | None:
    """Compare a pin (``want``) with what was printed (``got``).

    Returns None where they agree, else a unified diff in which a line that differs only within
    the tolerance, or where the pin has ``...``, stands as unchanged.
    """
    kept = keep_allowed(want, got, rel)
    return None if kept == want else show_diff(want, kept)


def keep_allowed(want: str, got: str, rel: float = DEFAULT_REL) -> str:
    """Return what was printed, with the pin's own line wherever the pin allows the line printed.

    It equals ``want`` exactly when nothing differs.  Accepted in its stead, it keeps the ``...``
    and the digits that were reviewed where they still hold.
    """
    want_lines, got_lines = want.split("\n"), got.split("\n")
    for i, j in _pair_lines(want_lines, got_lines, rel):
        got_lines[j] = want_lines[i]
    return "\n".join(got_lines)


def show_diff(want: str, got: str) -> str:
    """Show the difference of two texts as a unified diff, without a newline at its end."""
    diff = difflib.unified_diff(
        _shown_lines(want),
        _shown_lines(got),
        fromfile="pin",
        tofile="this run",
        lineterm="",
        n=_CONTEXT_LINES,
    )
    return "\n".join(diff)


def _pair_lines(want: Sequence[str], got: Sequence[str], rel: float) -> list[tuple[int, int]]:
    """Pair lines that match, in order, as many as can be (a longest common subsequence)."""
    first, last = 0, 0
    shorter = min(len(want), len(got))
    while first < shorter and match_line(want[first], got[first], rel):
        first += 1
    while last < shorter - first and match_line(want[-1 - last], got[-1 - last], rel):
        last += 1
    rows, columns = len(want) - first - last, len(got) - first - last
    pairs = [(i, i) for i in range(first)]
    pairs += [(len(want) - 1 - i, len(got) - 1 - i) for i in range(last)]
    if rows * columns > _MOST_PAIRS:
        between = range(first, first + min(rows, columns))
        return pairs + [(i, i) for i in between if match_line(want[i], got[i], rel)]
    # longest[i][j]: the most pairs among the lines of want from i and of got from j.
    longest = [[0] * (columns + 1) for _ in range(rows + 1)]
    matches = [
        [match_line(want[first + i], got[first + j], rel) for j in range(columns)]
        for i in range(rows)
    ]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            longest[i][j] = (
                longest[i + 1][j + 1] + 1
                if matches[i][j]
                else max(longest[i + 1][j], longest[i][j + 1])
            )
    i = j = 0
    while i < rows and j < columns:
        if matches[i][j]:
            pairs.append((first + i, first + j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _shown_lines(text: str) -> list[str]:
    """Split a text into lines in which what the eye can't see is written out."""
    lines = [_show(line) for line in text.split("\n")]
    if lines[-1]:
        lines[-1] += "  (no newline at the end)"
    else:
        lines.pop()
    return lines


def _show(line: str) -> str:
    shown = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), line)
    kept = shown.rstrip(" ")
    return kept + "·" * (len(shown) - len(kept))
