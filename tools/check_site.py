"""Check that the built site loads nothing from elsewhere and works from a folder on disk.

    python -m tools.check_site build/html

Looked at is what a browser loads by itself. A link that a reader follows may lead anywhere.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADED = ("src", "poster", "data", "xlink:href")
NOT_LOADED_LINKS = {"canonical", "author", "license", "search", "index", "next", "prev", "edit"}

_CSS_LOADS = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


class _Loads(HTMLParser):
    """Collects (line, address) of what a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        for name in LOADED:
            self._add(values.get(name, ""))
        for candidate in values.get("srcset", "").split(","):  # "a.png 1x, b.png 2x"
            self._add(candidate.strip().partition(" ")[0])
        if tag in ("image", "use") or (tag == "link" and not self._is_mere_link(values)):
            self._add(values.get("href", ""))
        for address in _list_css_loads(values.get("style", "")):
            self._add(address)

    def handle_data(self, data: str) -> None:
        if self._in_style:
            for address in _list_css_loads(data):
                self._add(address)

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self._in_style = False

    def _is_mere_link(self, values: dict[str, str]) -> bool:
        return set(values.get("rel", "").lower().split()) <= NOT_LOADED_LINKS

    def _add(self, address: str) -> None:
        self.found.append((self.getpos()[0], address))


def check_site(site: Path) -> Iterator[str]:
    """Yield one line for each thing that a page of `site` loads from elsewhere."""
    pages = [p for p in sorted(site.rglob("*.html")) if "_static" not in p.parts]
    if not pages:
        yield f"{site}: no page is there"
    for page in pages:
        parser = _Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        for line, address in parser.found:
            yield from _judge(f"{page}:{line}", address)
    for sheet in sorted(site.rglob("*.css")):
        for address in _list_css_loads(sheet.read_text(encoding="utf-8")):
            yield from _judge(str(sheet), address)


def _judge(where: str, address: str) -> Iterator[str]:
    if _ELSEWHERE.match(address):
        yield f"{where}: loads {address} from another host"
    elif address.startswith("/"):
        yield f"{where}: loads {address} from a server's root: not there on disk"


def _list_css_loads(css: str) -> list[str]:
    return [a or b for a, b in _CSS_LOADS.findall(css)]


if __name__ == "__main__":
    findings = list(check_site(Path(sys.argv[1])))
    print("\n".join(findings) if findings else "The site loads nothing from elsewhere.")
    sys.exit(bool(findings))
