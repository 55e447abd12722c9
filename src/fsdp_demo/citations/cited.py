"""The directive ``cited-not-measured``: what a page takes on trust, from whom, and why.

    :::{cited-not-measured}
    :because: a single machine has no second node
    That a hybrid keeps its gathers on fast links is torch's statement.

    ```{torch-quote} torch.distributed.fsdp.api.ShardingStrategy
    expensive all-gathers and reduce-scatters are only done within a node
    ```
    :::

A page on which nothing is taken on trust says so by the option ``nothing``, and has no content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.matching import Matcher

from fsdp_demo.pins.notes import could_not_run

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec

TITLE = "Cited, not measured"
NOTHING = (
    "Nothing: every statement on this page comes from a run on it, or from the source it quotes."
)
CLASS = "cited"
_MADE_HERE = "cited_not_measured"

logger = logging.getLogger(__name__)


class CitedNotMeasured(SphinxDirective):
    """State what the page cites and doesn't measure; without citation or reason, warn here."""

    has_content = True
    option_spec: ClassVar[OptionSpec | None] = {
        "because": directives.unchanged_required,
        "nothing": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Build the box, with the same title and the same last sentence on each page."""
        box = nodes.admonition("", nodes.title("", TITLE), classes=[CLASS])
        box[_MADE_HERE] = True
        self.set_source_info(box)
        if "nothing" in self.options:
            if self.content or "because" in self.options:
                self._warn("with `:nothing:` there is nothing else to say: take the rest out")
            box += nodes.paragraph("", NOTHING)
            return [box]
        content = self.parse_content_to_nodes()
        if not any(_cites(node) for node in content):
            self._warn("it cites nothing: quote torch in it, or link to what says it")
        box += content
        if "because" in self.options:
            reason, messages = self.parse_inline(self.options["because"].rstrip("."))
            words = (nodes.Text("Not measured here, because "), *reason, nodes.Text("."))
            paragraph = nodes.paragraph("", "", *words)
            self.set_source_info(paragraph)
            box += [paragraph, *messages]
        else:
            self._warn("it doesn't say why this wasn't measured: add `:because: …`")
        return [box]

    def _warn(self, message: str) -> None:
        if could_not_run(self.env):
            return  # a quotation can't be looked up where the page's kernel isn't known
        location = (self.env.docname, self.lineno)
        logger.warning(
            "cited-not-measured: %s", message, location=location, type="citations", subtype="cited"
        )


def _cites(node: nodes.Node) -> bool:
    kinds = (nodes.reference, addnodes.pending_xref)
    return any(isinstance(child, kinds) for child in node.findall())


def check_page(app: Sphinx, document: nodes.document) -> None:
    """Warn of a box that was made by hand, and of a page that must have one and hasn't."""
    docname = app.env.docname
    if could_not_run(app.env):
        return
    boxes = []
    for box in document.findall(nodes.admonition):
        title = box.next_node(nodes.title)
        if box.get(_MADE_HERE):
            boxes.append(box)
        elif CLASS in box["classes"] or (title is not None and title.astext() == TITLE):
            _warn_of_page("write the directive `cited-not-measured` in place of this box", box)
    if not Matcher(app.config.cited_required)(docname):
        return
    if not boxes:
        message = (
            "the page doesn't say what it cites and doesn't measure: add `cited-not-measured`,"
            " with `:nothing:` if that is nothing"
        )
        _warn_of_page(message, (docname, 1))
    for box in boxes[1:]:
        _warn_of_page("the page has another `cited-not-measured`: say it in one place", box)


def _warn_of_page(message: str, location: nodes.Node | tuple[str, int]) -> None:
    logger.warning(message, location=location, type="citations", subtype="cited")
