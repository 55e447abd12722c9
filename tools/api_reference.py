"""How the API reference shows signatures: types by the source's names, classes without any.

What a module imports for its annotations alone does not exist when Sphinx looks at it: ``Callable``
and ``nn.Module`` stay the texts that they are in the source. `FULL_NAMES` says what they stand for,
so that each of them is a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.addnodes import pending_xref

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

ABC = ("Callable", "Iterable", "Iterator", "Mapping", "Sequence")
RECORDS = (
    *("Collective", "Event", "FlatParameter", "Layout", "MemoryEvent", "Padding"),
    *("Parameter", "ParameterSlice", "PartRow", "Shard", "Unit"),
)
WORDS = ("EventKind", "Kind", "Phase", "Frame")  # the docstrings say what they can be: no link
EQUALITY = ("Difference", "Differences", "UnequalError")
FULL_NAMES = {
    "Any": "typing.Any",
    "Literal": "typing.Literal",
    "nn.Module": "torch.nn.Module",
    **{name: f"collections.abc.{name}" for name in ABC},
    **{name: f"fsdp_demo.records.{name}" for name in RECORDS},
    **{name: f"fsdp_demo.equality.{name}" for name in EQUALITY},
}


def name_types(_app: Sphinx, document: nodes.document) -> None:
    """Give each reference to a type its full name, and show the short one."""
    for reference in list(document.findall(pending_xref)):
        if reference.get("refdomain") != "py":
            continue
        target = reference["reftarget"]
        # The module that defines a name is a detail: shown and linked is the public name.
        last = target.rpartition(".")[2]
        if target.startswith("fsdp_demo."):
            for text in list(reference.findall(nodes.Text)):
                text.parent.replace(text, nodes.Text(text.replace(target, last)))
        if last in WORDS:
            reference.replace_self(reference.children)
        own = target.startswith("fsdp_demo.") and last in FULL_NAMES
        reference["reftarget"] = FULL_NAMES.get(last if own else target, target)


def name_attributes(_app: Sphinx, document: nodes.document) -> None:
    """Call a record's attributes so; Sphinx says "Variables"."""
    for name in document.findall(nodes.field_name):
        if name.astext() == "Variables":
            name.children = [nodes.Text("Attributes")]


def drop_constructor(  # Sphinx's form
    _app: Sphinx,
    what: str,
    _name: str,
    _object: object,
    _options: object,
    signature: str | None,
    _: object,
) -> tuple[str, str] | None:
    """Leave out how a class is made: a reader is given records and errors, and reads them."""
    return ("", "") if what in ("class", "exception") and signature else None


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect to the reading of docstrings and pages."""
    app.connect("autodoc-process-signature", drop_constructor)
    app.connect("doctree-read", name_types)
    app.connect("doctree-read", name_attributes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
