"""What Sphinx sees of the comparisons: the check of each page, and the table of all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.matching import Matcher

from fsdp_demo.comparisons.check import check_page
from fsdp_demo.comparisons.table import ComparisonTable, TablePlace, fill_tables, tables_of
from fsdp_demo.pins.files import read_source
from fsdp_demo.pins.notes import notes_of

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive and the check with Sphinx."""
    app.setup_extension("fsdp_demo.pins")
    app.add_config_value("comparisons_required", [], "env", types=frozenset({list}))
    app.add_node(TablePlace)
    app.add_directive("comparison-table", ComparisonTable)
    app.connect("doctree-read", _check)
    app.connect("doctree-resolved", fill_tables)
    app.connect("env-purge-doc", _forget)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", _list_tables)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}


def _check(app: Sphinx, _document: nodes.document) -> None:
    """Note what the page that was just read doesn't compare."""
    docname, notes = app.env.docname, notes_of(app.env)
    page = notes.page(docname)
    # A page without cells, or that could not be executed, is reported as such.
    if not page.cells or not Matcher(app.config.comparisons_required)(docname):
        return
    source = read_source(Path(app.env.doc2path(docname)))
    for finding in check_page(page, source):
        notes.add(docname, finding)


def _list_tables(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Have the pages that show the table written in every build: any page may have changed."""
    return sorted(tables_of(env))


def _forget(_app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    tables_of(env).discard(docname)


def _merge(
    _app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
) -> None:
    tables_of(env).update(tables_of(other) & docnames)
