"""Whether one printed line is what its pin says.

Text is compared exactly, and so are integers, versions (``2.2.2``), hexadecimal (``0x7f``) and
every number inside a word (``a1b2``, ``cu12.1``, ``1.5GB``).  A *float* is a number with digits
after a decimal point, or with an exponent, that stands alone.  It may differ by
``max(rel * |want|, unit)``, where the unit is that of the last written digit: of the one that was
written finer, where the two differ in that, so that ``0.3`` doesn't cover ``0.39``.  A number
without a written fraction (``1.``, ``2e-05``) has no such unit.

``...`` in a pin stands for anything inside its line.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache

DEFAULT_REL = 1e-6
"""How much of its size a float may differ by, where a cell says nothing else."""

_NUMBER = r"[+-]?(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.?[eE][+-]?[0-9]+)"
# Not inside a word, a version (2.2.2, 1.5.dev0) or a version with a build (2.13+cpu).
_FLOAT = rf"(?<![\w.]){_NUMBER}(?!\.?\w|[+-][A-Za-z])"
_FIELD = re.compile(rf"( *)({_FLOAT})")
_WILDCARD = "..."
# Digits enough for any float; no traps, since what isn't finite is compared as text.
_EXACT = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def match_line(want: str, got: str, rel: float = DEFAULT_REL) -> bool:
    """Tell whether a line printed (``got``) is what the pin's line (``want``) allows."""
    if want == got:
        return True
    pattern, fields = _compile(want)
    if not fields and _WILDCARD not in want:
        return False
    found = pattern.fullmatch(got)
    if found is None:
        return False
    groups = found.groups()
    printed = zip(groups[::2], groups[1::2], strict=True)
    return all(_match_field(*one, *two, rel) for one, two in zip(fields, printed, strict=True))


@lru_cache(maxsize=1024)
def _compile(want: str) -> tuple[re.Pattern[str], list[tuple[str, str]]]:
    """Compile a pin's line, with its floats as pairs of leading spaces and number."""
    pattern, start, fields = "", 0, []
    for field in _FIELD.finditer(want):
        pattern += _escape(want[start : field.start()]) + f"( *)({_FLOAT})"
        fields.append((field[1], field[2]))
        start = field.end()
    return re.compile(pattern + _escape(want[start:]), re.DOTALL), fields


def _escape(text: str) -> str:
    return ".*?".join(re.escape(part) for part in text.split(_WILDCARD))


def _match_field(want_pad: str, want: str, got_pad: str, got: str, rel: float) -> bool:
    """Compare two floats and the spaces before them.

    In a column that is aligned on the right a sign, or one more digit, takes the place of a
    space: either the spaces or the whole width must be the same.
    """
    same_width = len(want_pad) + len(want) == len(got_pad) + len(got)
    return (want_pad == got_pad or same_width) and match_number(want, got, rel)


def match_number(want: str, got: str, rel: float = DEFAULT_REL) -> bool:
    """Tell whether two written floats agree within the tolerance."""
    if want == got:
        return True
    if not want.startswith("+") and got.startswith("+"):
        return False  # another format
    one, two = _EXACT.create_decimal(want), _EXACT.create_decimal(got)
    if not (one.is_finite() and two.is_finite()):
        return False
    tolerance = max(
        _EXACT.multiply(_EXACT.create_decimal(repr(rel)), _EXACT.abs(one)),
        min(_unit(want), _unit(got)),
    )
    return _EXACT.abs(_EXACT.subtract(one, two)) <= tolerance


def _unit(number: str) -> Decimal:
    """Return the unit of the last digit after the decimal point; 0 where there is none."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not decimals:
        return Decimal(0)
    return _EXACT.scaleb(Decimal(1), int(exponent or 0) - decimals)
