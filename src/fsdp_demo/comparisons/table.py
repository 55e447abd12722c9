"""The directive ``comparison-table``: what the comparisons of all lessons found, a row for each.

Where all bits were the same it has an equals sign, elsewhere the largest difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.matching import Matcher

from fsdp_demo.pins.notes import notes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_TABLES = "fsdp_demo_comparison_tables"
"""The environment's set of the pages that show the table."""


class TablePlace(nodes.General, nodes.Element):
    """Where the table is to stand; it is made when all pages have been read."""


class ComparisonTable(SphinxDirective):
    """Mark the place of the table."""

    def run(self) -> list[nodes.Node]:
        """Note the page, which is written anew whenever another page is read."""
        tables_of(self.env).add(self.env.docname)
        return [TablePlace()]


def tables_of(env: BuildEnvironment) -> set[str]:
    """Return the names of the pages that show the table."""
    if not hasattr(env, _TABLES):
        setattr(env, _TABLES, set())
    tables: set[str] = getattr(env, _TABLES)
    return tables


def fill_tables(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Put the table in its place."""
    for place in list(document.findall(TablePlace)):
        place.replace_self(_make_table(app, docname))


def _make_table(app: Sphinx, docname: str) -> nodes.table:
    lessons = _list_lessons(app)
    rows = [row for lesson in lessons.values() for row in lesson]
    parts = list(dict.fromkeys(part for row in rows for part in row["largest"]))
    group = nodes.tgroup("", cols=1 + len(parts))
    group += [nodes.colspec("", colwidth=1) for _ in range(group["cols"])]
    group += nodes.thead("", _make_row(*(nodes.Text(title) for title in ("program", *parts))))
    body = nodes.tbody()
    for name, comparisons in lessons.items():
        uri = app.builder.get_relative_uri(docname, name)
        link = nodes.reference("", app.env.titles[name].astext(), refuri=uri, internal=True)
        entry = nodes.entry("", nodes.paragraph("", "", link), morecols=len(parts))
        body += nodes.row("", entry)
        for row in comparisons:
            words = f"{row['program']}, {row['world']} rank{'s' if row['world'] > 1 else ''}"
            texts = (words, *(_describe(row, part) for part in parts))
            body += _make_row(*(nodes.Text(text) for text in texts))
    group += body
    return nodes.table("", group, classes=["comparisons"])


def _list_lessons(app: Sphinx) -> dict[str, list[Mapping[str, Any]]]:
    """List the comparisons of each page that must have some."""
    pages = notes_of(app.env).pages
    required = Matcher(app.config.comparisons_required)
    found = {
        name: [comparison for cell in pages[name].cells for comparison in cell.comparisons]
        for name in sorted(filter(required, pages))
    }
    return {name: comparisons for name, comparisons in found.items() if comparisons}


def _describe(row: Mapping[str, Any], part: str) -> str:
    return "=" if row["identical"][part] else f"{row['largest'][part]:.1e}"


def _make_row(*cells: nodes.Node) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        row += nodes.entry("", nodes.paragraph("", "", cell))
    return row
