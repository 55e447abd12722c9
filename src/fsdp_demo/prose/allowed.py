"""The reviewed list of numbers that prose may state without a run: docs/_numbers.toml.

The key ``everywhere`` lists phrases for all pages, the table ``pages`` lists those of one page. In
a phrase ``#`` stands for any figure.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class AllowListError(ValueError):
    """The list can't be read: what is wrong with it, and its line."""

    def __init__(self, message: str, line: int = 1) -> None:
        """Keep the line apart: a report puts it behind the file's name."""
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class AllowList:
    """Phrases that may hold a number.

    Attributes:
        path: The file.
        everywhere: Phrases for every page.
        pages: Phrases for one page, by its docname.

    """

    path: Path
    everywhere: tuple[str, ...]
    pages: dict[str, tuple[str, ...]]

    def phrases(self, docname: str) -> tuple[str, ...]:
        """Return what a page may say."""
        return self.everywhere + self.pages.get(docname, ())

    def find_line(self, phrase: str, docname: str | None = None) -> int:
        """Return the line at which a phrase stands, below its page's key where it has one."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        start = 0
        if docname is not None:
            start = next((i for i, line in enumerate(lines) if f'"{docname}"' in line), 0)
        for number, line in enumerate(lines[start:], start + 1):
            if f'"{phrase}"' in line or f"'{phrase}'" in line:
                return number
        return 1


def read_allow_list(path: Path) -> AllowList:
    """Read the list; a missing file allows nothing.

    Raises:
        AllowListError: the file is no TOML, or holds something else than lists of phrases.

    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        line = re.search(r"at line (\d+)", str(error))
        msg = f"not TOML that can be read: {error}"
        raise AllowListError(msg, int(line[1]) if line else 1) from None
    unknown = sorted(set(data) - {"everywhere", "pages"})
    if unknown:
        msg = f"unknown key {unknown[0]!r}; there are `everywhere` and `pages`"
        raise AllowListError(msg)
    pages = data.get("pages", {})
    if not isinstance(pages, dict):
        msg = "`pages` is no table of pages"
        raise AllowListError(msg)
    everywhere = _read_phrases("everywhere", data.get("everywhere", []))
    of_pages = {page: _read_phrases(page, value) for page, value in pages.items()}
    return AllowList(path, everywhere, of_pages)


def _read_phrases(key: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401  # as parsed
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        msg = f"`{key}` is no list of phrases"
        raise AllowListError(msg)
    return tuple(value)
