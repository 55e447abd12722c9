"""Find figures and number words in a text, and write a figure as a word."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_OTHER = ("once", "twice", "thrice", "half", "halves", "third", "thirds", "quarter", "quarters")

# A figure may have digits that belong together by points, commas or spaces of a thousand, and may
# be glued to letters (FSDP2): it is found all the same, and allowed by name where it is one.
_NUMBER = re.compile(
    rf"(?<!\w)(?:{'|'.join((*WORDS, *_OTHER))})(?!\w)|\d+(?:[.,]\d+)*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Number:
    """A figure or number word in a text, with its place there."""

    text: str
    start: int
    stop: int


def find_numbers(text: str) -> Iterator[Number]:
    """Yield every figure and number word of `text`, in order."""
    for match in _NUMBER.finditer(text):
        yield Number(match[0], match.start(), match.end())


def write_word(value: int) -> str:
    """Write a number up to twelve as a word, a larger one in figures."""
    return WORDS[value] if 0 <= value < len(WORDS) else f"{value:,}"


def find_unallowed(text: str, phrases: Sequence[str]) -> Iterator[Number]:
    """Yield the numbers of `text` that lie in none of `phrases`."""
    spans = [span for phrase in phrases for span in find_phrase(text, phrase)]
    for number in find_numbers(text):
        if not any(start <= number.start and number.stop <= stop for start, stop in spans):
            yield number


def find_phrase(text: str, phrase: str) -> list[tuple[int, int]]:
    """Find an allowed phrase: ``#`` in it stands for any figure, white space for any amount."""
    pattern = r"\s+".join(
        re.escape(word).replace(r"\#", r"\d+(?:[.,]\d+)*") for word in phrase.split()
    )
    before = r"(?<!\w)" if phrase[:1].isalnum() or phrase[:1] == "#" else ""
    after = r"(?!\w)" if phrase[-1:].isalnum() or phrase[-1:] == "#" else ""
    return [match.span() for match in re.finditer(before + pattern + after, text, re.IGNORECASE)]
