"""What Sphinx sees of the citations: two directives, and a check of each page."""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from fsdp_demo.citations.cited import CitedNotMeasured, check_page
from fsdp_demo.citations.directive import TorchQuote


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives and the check with Sphinx."""
    app.add_config_value("cited_required", [], "env", types=frozenset({list}))
    app.add_directive("torch-quote", TorchQuote)
    app.add_directive("cited-not-measured", CitedNotMeasured)
    app.connect("doctree-read", check_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
