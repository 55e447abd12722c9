"""Where a part of the document that Sphinx made of a page is written."""

from __future__ import annotations

from docutils import nodes


def in_cell(node: nodes.Node) -> bool:
    """Tell whether a node is a cell's, its code or what it showed."""
    parent = node.parent
    while parent is not None:
        if isinstance(parent, nodes.Element) and parent.get("nb_element"):
            return True
        parent = parent.parent
    return False


def find_place(block: nodes.Node, page: str) -> tuple[str | None, int]:
    """Find file and line: mostly the page's, None then, but it may be included from elsewhere."""
    node: nodes.Node | None = block
    while node is not None and not node.line:  # an image's line is 0
        node = node.parent
    line = node.line if node is not None and node.line is not None else 1
    source = node.source if node is not None else None
    return (None if source in {None, page} else source), line
