"""Look for quoted words in an object's source."""

import re

from fsdp_demo.citations.source import SourceObject

_COMMENT = re.compile(r"^\s*#+\s?")


def find_words(source: SourceObject, words: str) -> int | None:
    """Return the line of the file at which `words` start in `source`, or None if they aren't there.

    White space is set aside, and so are the ``#`` at the start of comment lines: a sentence that a
    docstring or a comment breaks over several lines is still one sentence. A match must start and
    end at the edge of a word, so that a quotation can't silently cut ``not`` out of ``cannot``.
    """
    wanted = " ".join(words.split())
    if not wanted:
        return None
    text, line_of = _join(source)
    pattern = re.escape(wanted)
    if wanted[0].isalnum():
        pattern = r"(?<!\w)" + pattern
    if wanted[-1].isalnum():
        pattern += r"(?!\w)"
    match = re.search(pattern, text)
    return None if match is None else line_of[match.start()]


def _join(source: SourceObject) -> tuple[str, list[int]]:
    """Join the lines into one text with single spaces, and say for each character its line."""
    characters: list[str] = []
    line_of: list[int] = []
    for number, line in enumerate(source.lines, source.first_line):
        for word in _COMMENT.sub("", line).split():
            characters.append(word + " ")
            line_of.extend([number] * (len(word) + 1))
    return "".join(characters), line_of
