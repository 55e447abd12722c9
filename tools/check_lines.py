"""Check the lines of pages and pins: one sentence a line, nothing that is cut off or scrolls.

    python -m tools.check_lines README.md docs

One sentence a line makes a change of one sentence a change of one line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fsdp_demo.pins.files import find_bad_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COLUMNS = 80  # what fits on the page without scrolling
CELL_LINES = 30  # what can be read as one thing

_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|no|fig|eq|sec)\.$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"""[.!?]["')\]*_]*(?=\s+["'(\[*_]*[A-Z])""")
_LINE_END = re.compile(r"""[.!?:;]["')\]}*_`]*$""")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(\S*)")
_MARKER = re.compile(r"^\s*(>\s*)*([-*+]\s+|\d+[.)]\s+|:\s+)?(\[.\]\s+)?")
# Headings, tables, directives and their options, targets, comments, HTML, front matter.
_NO_PROSE = re.compile(r"^\s*(#|\||:::|:[\w-]+:(\s|$)|\(.+\)=$|%|<|\+\+\+|---|\{)")


def check_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, finding) for a Markdown page."""
    lines = _mask_front_matter(text.splitlines())
    fence, started, language = "", 0, ""
    for number, line in enumerate(lines, start=1):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2]:
                if "code-cell" in language:
                    yield from _check_cell(started, lines[started : number - 1])
                fence = ""
        elif match:
            fence, started, language = match[1], number, match[2]
        else:
            following = lines[number] if number < len(lines) else ""
            yield from ((number, finding) for finding in _check_prose(line, following))


def check_pins(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, finding) for a pin file: what is printed must fit as well."""
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns are printed: at most {COLUMNS} fit on the page"


def _mask_front_matter(lines: list[str]) -> list[str]:
    """Blank the front matter, so that line numbers stay what they are."""
    if lines[:1] == ["---"] and "---" in lines[1:]:
        end = lines.index("---", 1) + 1
        return [""] * end + lines[end:]
    return lines


def _check_cell(first: int, cell: list[str]) -> Iterator[tuple[int, str]]:
    code = [line for line in cell if not line.startswith(":")]
    if len(code) > CELL_LINES:
        yield first, f"the cell has {len(code)} lines: at most {CELL_LINES} are read as one thing"
    for offset, line in enumerate(cell, start=1):
        if len(line) > COLUMNS:
            yield first + offset, f"{len(line)} columns of code: at most {COLUMNS} fit on the page"


def _check_prose(line: str, following: str) -> Iterator[str]:
    if not line.strip() or _NO_PROSE.match(line):
        return
    prose = _blank_spans(_MARKER.sub("", line))
    for end in _SENTENCE_END.finditer(prose):
        if not _ABBREVIATION.search(prose[: end.start() + 1]):
            yield f"two sentences: the second starts at '{prose[end.end() :].strip()[:20]}'"
    if _goes_on(line, following) and not _LINE_END.search(prose.rstrip()):
        yield "the sentence goes on in the next line: one sentence, one line"


def _goes_on(line: str, following: str) -> bool:
    """Say whether `following` is of the same paragraph as `line`."""
    if not following.strip() or _NO_PROSE.match(following) or _FENCE.match(following):
        return False
    match = _MARKER.match(following)
    if match and (match[2] or match[3]):
        return False
    own = _MARKER.match(line)
    text_column = len(own[0]) if own else 0
    column = len(following) - len(following.lstrip())
    return column <= text_column  # indented further: what a term or an item is about


def _blank_spans(prose: str) -> str:
    """Put a word in place of each code span and address: their dots end no sentence."""
    prose = re.sub(r"(`+).+?\1", "Code", prose)
    return re.sub(r"\]\([^)]*\)", "]", prose)


def _check_file(
    file: Path, check: Callable[[str], Iterator[tuple[int, str]]]
) -> Iterator[tuple[int, str]]:
    try:
        yield from check(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        yield find_bad_line(error), "it is not UTF-8: save it as UTF-8"


def main(paths: list[str]) -> int:
    """Check each file, and each page and pin file below each folder; return the exit status."""
    failed = False
    for path in map(Path, paths):
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix == ".md":
                check = check_page
            elif file.suffix == ".toml" and "_pins" in file.parts:
                check = check_pins
            else:
                continue
            for number, finding in _check_file(file, check):
                print(f"{file}:{number}: {finding}")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
