"""Figures and number words are found, and reviewed phrases let them pass."""

import pytest

from fsdp_demo.prose.numbers import find_numbers, find_phrase, find_unallowed, write_word


def found(text: str) -> list[str]:
    return [number.text for number in find_numbers(text)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("three gathers, then 6", ["three", "6"]),
        ("Twice per unit", ["Twice"]),
        ("1,000 or 2.5 of them", ["1,000", "2.5"]),
        ("FSDP2 on x86-64", ["2", "86", "64"]),
        ("someone often weighs tenfold", []),
        ("one by one.", ["one", "one"]),
        ("a third of it, half of that", ["third", "half"]),
    ],
)
def test_figures_and_number_words_are_found(text: str, numbers: list[str]) -> None:
    assert found(text) == numbers


def unallowed(text: str, *phrases: str) -> list[str]:
    return [number.text for number in find_unallowed(text, phrases)]


def test_a_phrase_allows_the_numbers_inside_it_and_no_others() -> None:
    assert unallowed("a 4 × 4 weight of 16 numbers", "4 × 4") == ["16"]


def test_a_hash_stands_for_any_figure() -> None:
    assert unallowed("rank 0 and rank 12 send 3", "rank #") == ["3"]


def test_a_phrase_starts_and_ends_with_whole_words() -> None:
    assert find_phrase("frank 0", "rank #") == []
    assert find_phrase("14 × 4", "4 × 4") == []


def test_a_phrase_may_be_broken_over_lines() -> None:
    assert unallowed("one\n  unit", "one unit") == []


@pytest.mark.parametrize(
    ("value", "word"),
    [(0, "zero"), (3, "three"), (12, "twelve"), (13, "13"), (1024, "1,024"), (-1, "-1")],
)
def test_numbers_up_to_twelve_are_words(value: int, word: str) -> None:
    assert write_word(value) == word
