"""Mistakes in a page's text after which none of it is read as it was meant.

Under a front matter that can't be read no cell is one, and a fence that nothing closes takes in
what follows it. The page gets one finding, in place of all that would come of that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml  # type: ignore[import-untyped]  # ships no types

from fsdp_demo.pins.findings import Finding, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

_FENCE = re.compile(
    r"\s*(?:>\s*|[-*+]\s+|\d+[.)]\s+)*(?P<mark>`{3,}(?=[^`]*$)|~{3,}|:{3,})(?P<info>.*)$"
)


def find_broken_text(source: str) -> Finding | None:
    """Find the mistake of a page's text, if there is one."""
    lines = source.splitlines()
    return _check_front_matter(lines) or _find_open_fence(lines, above=0)


def blank_front_matter(source: str) -> str:
    """Take the front matter out, or what there is of it, and leave all else in its line."""
    lines = source.splitlines()
    if not _begins(lines):
        return source
    end = _find_end(lines)
    if end is None:  # a blank line, a heading: where the text goes on
        end = next((n for n, line in enumerate(lines) if not line.strip() or line[0] == "#"), 0) - 1
    return "\n" * (end + 1) + "\n".join(lines[end + 1 :]) + "\n"


def _check_front_matter(lines: Sequence[str]) -> Finding | None:
    if not _begins(lines):
        return None
    end = _find_end(lines)
    if end is None:
        return Finding(Kind.FRONT_MATTER, 1, advice="End it with a line `---`.")
    try:
        read = yaml.safe_load("\n".join(lines[1:end]))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = min(mark.line + 2, end) if mark is not None else 1
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        return Finding(Kind.FRONT_MATTER, line, f"YAML says: {reason}.")
    if isinstance(read, dict) and "kernelspec" in read and read.get("file_format") != "mystnb":
        return Finding(Kind.FRONT_MATTER, 1, "A page of cells needs `file_format: mystnb` in it.")
    return None


def _begins(lines: Sequence[str]) -> bool:
    return bool(lines) and lines[0].rstrip() == "---"


def _find_end(lines: Sequence[str]) -> int | None:
    return next((n for n, line in enumerate(lines) if n and line.rstrip() == "---"), None)


def _find_open_fence(lines: Sequence[str], above: int) -> Finding | None:
    """Find a fence that isn't closed; ``above`` is how many of the page's lines come before."""
    opened, mark = 0, ""
    for number, line in enumerate(lines, start=1):
        match = _FENCE.match(line)
        if match is None or (mark and not match["mark"].startswith(mark)):
            continue
        if not mark:
            opened, mark = number, match["mark"]
        elif match["info"].strip():
            return _describe_fence(above + opened, mark, f"Line {above + number} opens another.")
        else:
            inside = lines[opened : number - 1]
            if mark[0] == ":" and (found := _find_open_fence(inside, above + opened)):
                return found
            mark = ""
    return _describe_fence(above + opened, mark, "The page ends.") if mark else None


def _describe_fence(line: int, mark: str, detail: str) -> Finding:
    advice = f"Close it with `` {mark} ``; around another fence it needs a longer mark."
    return Finding(Kind.OPEN_FENCE, line, detail, advice)
