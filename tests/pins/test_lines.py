"""What counts as the same line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdp_demo.pins.lines import match_line, match_number

SAME = [
    ("loss 1.2830595970", "loss 1.2830595971"),  # one unit of the last digit
    ("loss 1.283", "loss 1.282"),
    ("loss 0.3", "loss 0.30000000000000004"),  # more digits, the same number
    ("loss 1000000.0", "loss 1000000.5"),  # one millionth of it
    ("at 1.5e-05", "at 1.4e-05"),
    ("[0.5, -0.25]", "[0.5000001, -0.2499999]"),
    ("-0.0000", "-0.0001"),
    ("x -0.0 y", "x 0.0 y"),  # the sign of a zero is noise
    ("[ 0.0000, 1.5]", "[-0.0000, 1.5]"),  # and takes the place of a space
    ("  9.9999 |", " 10.0000 |"),  # as does one more digit
    ("nan inf -inf", "nan inf -inf"),
    ("at ... of 4", "at 0x7f3b of 4"),
    ("...", ""),
    ("a ... b 0.5 ... c", "a (1, 2) b 0.5000001  c"),
    ("(0.5) 0.5% 0.5.", "(0.4) 0.6% 0.5."),
    ("", ""),
]
OTHER = [
    ("16 numbers", "17 numbers"),
    ("-16", "16"),
    ("1.283", "1.281"),
    ("loss 0.3", "loss 0.39"),  # written finer, compared finer
    ("loss 1.", "loss 2."),  # no written fraction, no unit
    ("1e-05", "2e-05"),
    ("1.5", "-1.5"),
    ("torch 2.2.2", "torch 2.2.3"),
    ("torch 2.13+cpu", "torch 2.14+cpu"),
    ("v1.5", "v1.6"),
    ("0x7f", "0x7e"),
    ("a1b2", "a1b3"),
    ("cu12.1", "cu12.2"),
    ("1.5GB", "1.6GB"),
    ("127.0.0.1", "127.0.0.2"),
    ("1.5.dev0", "1.6.dev0"),
    ("nan", "0.5"),
    ("0.5", "nan"),
    ("inf", "-inf"),
    ("0.5", "5"),
    ("1", "1.0"),
    ("1.0", "1"),
    ("0.5", "+0.5"),
    ("x=0.5", "x= 0.5"),
    ("0.5 ", "0.5"),  # a space at the end
    ("0.5", "0.5\r"),
    ("a ... b", "a b"),
    ("at ...", "at"),
    ("...5", "4"),
    ("1e999999999999", "1e999999999998"),
]


@pytest.mark.parametrize(("want", "got"), SAME)
def test_lines_match(want: str, got: str) -> None:
    assert match_line(want, got)


@pytest.mark.parametrize(("want", "got"), OTHER)
def test_lines_differ(want: str, got: str) -> None:
    assert not match_line(want, got)


def test_tolerance_can_be_set() -> None:
    assert match_line("took 100.000", "took 100.900", rel=1e-2)
    assert not match_line("took 100.000", "took 101.100", rel=1e-2)


def test_one_unit_is_exact_in_decimal() -> None:
    """1.283 - 1.282 is a little more than 0.001 in binary."""
    assert match_number("1.283", "1.282", rel=0)
    assert not match_number("1.283", "1.2819", rel=0)


@given(st.text())
def test_any_text_matches_itself(text: str) -> None:
    assert match_line(text, text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 12))
def test_a_float_matches_its_neighbors_to_one_unit(value: float, digits: int) -> None:
    """Whatever the size, the printed number matches itself and no number three units off."""
    value = value % 1e6
    unit = 10.0**-digits
    printed = f"{value:.{digits}f}"
    assert match_line(f"x {printed}", f"x {value:.{digits}f}")
    if unit > 1e-9 and value < 1e6 - 1:
        assert not match_number(printed, f"{value + 3 * unit:.{digits}f}", rel=0)


@given(st.integers(), st.integers())
def test_integers_match_exactly(one: int, two: int) -> None:
    assert match_line(f"n {one}", f"n {two}") == (one == two)
