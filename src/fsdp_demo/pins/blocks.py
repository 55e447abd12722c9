"""Code on a page that nothing runs: Python blocks without a reason, and nested code cells.

They are looked for in the document that Sphinx made of the page, where directives inside
directives are parsed too, and not in the page's text.  A block that is rightly not run says so in
a comment right above it::

    % not run: needs two GPUs
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.notes import notes_of
from fsdp_demo.pins.places import find_place, in_cell
from fsdp_demo.pins.render import FAILED_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

REASON = re.compile(r"not run: *\S")
LANGUAGES = frozenset({"python", "python3", "py", "py3", "pycon", "pycon3", "ipython", "ipython3"})
_SEPARATE_SOURCE = "docstring of "


class NestedCell(SphinxDirective):
    """A code cell that MyST-NB left alone: inside another directive, or not on a page of cells.

    It stands in for MyST-NB's own directive, which is called for exactly these cells.
    """

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Note the cell, and render nothing."""
        if not self.env.temp_data.get(FAILED_KEY):
            finding = Finding(
                Kind.NESTED_CELL,
                self.lineno,
                advice="Move it out of the directive or list that it is in"
                " (and the front matter needs `file_format: mystnb`).",
            )
            notes_of(self.env).add(self.env.docname, finding)
        return []


def find_unrun_blocks(app: Sphinx, document: nodes.document) -> None:
    """Note each Python block of a page that nothing runs and that gives no reason."""
    docname = app.env.docname
    page = str(app.env.doc2path(docname))
    for block in _python_blocks(document):
        if not _has_reason(block):
            source, line = find_place(block, page)
            finding = Finding(
                Kind.UNRUN_BLOCK,
                line,
                advice="Make it a code cell, or write `% not run: why` in the line above it.",
                path=source,
            )
            notes_of(app.env).add(docname, finding)


def _python_blocks(document: nodes.document) -> Iterator[nodes.literal_block]:
    for block in document.findall(nodes.literal_block):
        if block.get("language") in LANGUAGES and not in_cell(block):
            yield block


def _has_reason(block: nodes.Element) -> bool:
    if isinstance(block.parent, nodes.container) and block.parent.get("literal_block"):
        block = block.parent  # around a block and its caption
    index = block.parent.index(block)
    before = block.parent[index - 1] if index else None
    return isinstance(before, nodes.comment) and REASON.match(before.astext()) is not None
