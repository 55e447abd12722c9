"""Pictures that say nothing to a reader who can't see them.

Looked at is what a page shows: images and figures of its text, raw HTML, and of what its cells
show the type that the site renders. A figure of `fsdp_demo.draw` brings its alternative along.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from docutils import nodes
from myst_nb.sphinx_ import get_mime_priority  # type: ignore[import-untyped]

from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.notes import notes_of
from fsdp_demo.pins.places import find_place, in_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

# What may hold a picture, and the attributes that put it into words for a screen reader.
_NAMED_BY = {
    "img": ("alt", "aria-label", "aria-labelledby"),
    **dict.fromkeys(("svg", "canvas"), ("aria-label", "aria-labelledby")),
    **dict.fromkeys(("object", "embed", "iframe", "video"), ("aria-label", "title")),
}
_IN_CELL = (
    "Show a figure of `fsdp_demo.draw`, give an SVG a <title> and an <img> an alt,"
    " or give the cell `:mystnb: {image: {alt: …}}`."
)
_IN_TEXT = "Write `![what it shows](…)`, the option `:alt:`, or in an SVG a <title>."


def find_mute_pictures(app: Sphinx, document: nodes.document) -> None:
    """Note each picture of a page that has no text alternative."""
    docname = app.env.docname
    notes = notes_of(app.env)
    cell_lines = [cell.line for cell in notes.page(docname).cells]
    for node, what in _list_mute(document, _list_hidden(app, document)):
        source, line = find_place(node, str(app.env.doc2path(docname)))
        if in_cell(node):  # MyST-NB's line is one inside the cell
            line = max(first for first in cell_lines if first <= line)
        advice = _IN_CELL if in_cell(node) else _IN_TEXT
        finding = Finding(Kind.NO_ALTERNATIVE, line, f"It is {what}.", advice, path=source)
        notes.add(docname, finding)


def _list_hidden(app: Sphinx, document: nodes.document) -> set[nodes.Node]:
    """List what a cell offers in several types and the site shows in another one."""
    priority = get_mime_priority("html", app.config.nb_mime_priority_overrides)
    hidden = set()
    for bundle in document.findall(nodes.container):
        if bundle.get("nb_element") == "mime_bundle":
            types = (child for child in bundle.children if isinstance(child, nodes.container))
            offered = {child["mime_type"]: child for child in types}
            shown = next((mime for mime in priority if mime in offered), None)
            hidden |= {child for mime, child in offered.items() if mime != shown}
    return {node for child in hidden for node in child.findall()}


def _list_mute(
    document: nodes.document, hidden: set[nodes.Node]
) -> Iterator[tuple[nodes.Node, str]]:
    for node in document.findall(nodes.Element):
        if node in hidden:
            continue
        if isinstance(node, nodes.image) and not str(node.get("alt", "")).strip():
            yield node, "an image without `alt`"
        # MyST makes a piece of each tag that stands inside a line.
        elif pieces := [child for child in node.children if _is_html(child)]:
            html = "".join(
                child.astext()
                for child in node.children
                if isinstance(child, nodes.Text | nodes.raw)
            )
            for what in _find_mute_tags(html, printed=in_cell(pieces[0])):
                yield pieces[0], what


def _is_html(node: nodes.Node) -> bool:
    return isinstance(node, nodes.raw) and "html" in node.get("format", "").split()


def _find_mute_tags(html: str, *, printed: bool) -> list[str]:
    parser = _Pictures(printed=printed)
    parser.feed(html)
    parser.close()
    return [what for what, words in parser.found if not words.strip()]


class _Pictures(HTMLParser):
    """Collects the pictures of a piece of HTML, each with its text alternative."""

    def __init__(self, *, printed: bool) -> None:
        super().__init__()
        self.printed = printed  # by a cell: then nothing of it is mere decoration
        self.found: list[tuple[str, str]] = []
        self._open: list[str] = []  # from the outermost SVG on

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if self._open:
            self._open.append(tag)
        elif tag in _NAMED_BY:
            decoration = values.get("aria-hidden") == "true" and not self.printed
            words = "".join(values.get(name, "") for name in _NAMED_BY[tag])
            self.found.append((f"<{tag}> without a name", "decoration" if decoration else words))
            if tag == "svg":
                self._open = [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._open:
            self.handle_starttag(tag, attrs)
            self._open = []

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._open[-1:] in (["title"], ["desc"]):
            what, words = self.found[-1]
            self.found[-1] = (what, words + data)
