"""The roles ``fact`` and ``fact-word``, and the check of the prose: what Sphinx sees of it."""

import difflib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.matching import Matcher
from sphinx.util.typing import ExtensionMetadata

from fsdp_demo.pins.notes import could_not_run
from fsdp_demo.prose.allowed import AllowList, AllowListError, read_allow_list
from fsdp_demo.prose.collect import Facts, collect_facts
from fsdp_demo.prose.numbers import find_phrase, find_unallowed, write_word

logger = logging.getLogger(__name__)

FACT_CLASS = "fact"
# Where a number is code, torch's own words, or comes from the run already.
_SKIPPED = (nodes.literal, nodes.literal_block, nodes.raw, nodes.comment, nodes.math)
_SKIPPED_CLASSES = frozenset({FACT_CLASS, "torch-quote", "cell"})


class FactRole(SphinxRole):
    """State a fact of the page's run, as the figure or, up to twelve, as a word."""

    def __init__(self, *, as_word: bool) -> None:
        """Make the role that writes words, or the one that writes figures."""
        super().__init__()
        self.as_word = as_word

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Look the fact up in the run of this page."""
        facts = _facts_of(self.inliner.document)
        name = self.text.strip()
        if name in facts.twice:
            return self._refuse(f"the page's cells name the fact {name!r} twice")
        if name not in facts.values:
            near = difflib.get_close_matches(name, facts.values, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return self._refuse(f"no cell of this page names a fact {name!r}{hint}")
        value = facts.values[name]
        if self.as_word and isinstance(value, int):
            text = write_word(value)
        else:
            text = f"{value:,}" if isinstance(value, int) else value
        return [nodes.inline("", text, classes=[FACT_CLASS])], []

    def _refuse(self, message: str) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        location = (self.env.docname, self.lineno)
        if not could_not_run(self.env):
            logger.warning(message, location=location, type="prose", subtype="fact")
        return [nodes.inline("", f"[{self.text}]", classes=[FACT_CLASS])], []


def _facts_of(document: nodes.document) -> Facts:
    # MyST-NB leaves its renderer on the document while the page is read, for roles to use.
    renderer = document.attributes.get("nb_renderer")
    return collect_facts(renderer.renderer.nb_client.notebook.cells if renderer else ())


def check_prose(app: Sphinx, doctree: nodes.document) -> None:
    """Warn of each figure and number word in a checked page that no fact and no phrase covers."""
    docname = app.env.docname
    if not Matcher(app.config.prose_checked)(docname):
        return
    try:
        allowed = _read(app)
    except AllowListError:  # said once, below
        return
    phrases = allowed.phrases(docname)
    used = _used(app.env)[docname] = set()
    if could_not_run(app.env):
        used.update(phrases)  # whether it needs them is seen once it runs
        return
    for block in doctree.findall(nodes.TextElement):
        if isinstance(block, nodes.Inline) or _is_skipped(block):
            continue
        text = _prose_of(block)
        used.update(phrase for phrase in phrases if find_phrase(text, phrase))
        for number in find_unallowed(text, phrases):
            around = text[max(0, number.start - 30) : number.stop + 30].strip()
            logger.warning(
                "%r in “…%s…” comes from no run: name it in a cell with fact(), or allow the"
                " phrase in %s",
                number.text,
                around,
                allowed.path.name,
                location=block,
                type="prose",
                subtype="number",
            )


def _prose_of(block: nodes.TextElement) -> str:
    """Return a block's words, with a gap for whatever is code, quoted or a fact."""
    parts = []
    for child in block.children:
        if isinstance(child, nodes.Text):
            parts.append(child.astext())
        elif isinstance(child, nodes.TextElement) and not _is_skipped(child):
            parts.append(_prose_of(child))
        else:
            parts.append("\N{OBJECT REPLACEMENT CHARACTER}")
    return " ".join("".join(parts).split())


def _is_skipped(node: nodes.Node | None) -> bool:
    while node is not None:
        if isinstance(node, _SKIPPED):
            return True
        if isinstance(node, nodes.Element) and _SKIPPED_CLASSES & set(node["classes"]):
            return True
        node = node.parent
    return False


def check_allow_list(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Warn of each allowed phrase that no checked page needs any longer, or of a broken list."""
    try:
        allowed = _read(app)
    except AllowListError as error:
        location = f"{Path(app.srcdir, app.config.prose_allowed)}:{error.line}"
        logger.warning("%s", error, location=location, type="prose", subtype="allowed")
        return []
    used = _used(env)
    for phrase in allowed.everywhere:
        if used and not any(phrase in phrases for phrases in used.values()):
            _warn_unused(allowed, phrase, None)
    for docname, phrases in allowed.pages.items():
        for phrase in phrases:
            if phrase not in used.get(docname, ()):
                _warn_unused(allowed, phrase, docname)
    return []


def _warn_unused(allowed: AllowList, phrase: str, docname: str | None) -> None:
    page = docname or "any page"
    logger.warning(
        "the allowed phrase %r is not in the prose of %s: take it out",
        phrase,
        page,
        location=f"{allowed.path}:{allowed.find_line(phrase, docname)}",
        type="prose",
        subtype="allowed",
    )


def _read(app: Sphinx) -> AllowList:
    return read_allow_list(Path(app.srcdir, app.config.prose_allowed))


def _used(env: BuildEnvironment) -> dict[str, set[str]]:
    """Return the phrases that each page used, kept in Sphinx's environment."""
    if not hasattr(env, "prose_used"):
        env.prose_used = {}  # type: ignore[attr-defined]
    used: dict[str, set[str]] = env.prose_used  # type: ignore[attr-defined]
    return used


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:  # noqa: ARG001  # Sphinx's form
    _used(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: Any) -> None:  # noqa: ANN401, ARG001  # Sphinx's form
    _used(env).update({name: used for name, used in _used(other).items() if name in docnames})


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the roles and the checks with Sphinx."""
    app.add_config_value("prose_checked", [], "env", types=frozenset({list}))
    app.add_config_value("prose_allowed", "_numbers.toml", "env", types=frozenset({str}))
    app.add_role("fact", FactRole(as_word=False))
    app.add_role("fact-word", FactRole(as_word=True))
    app.connect("doctree-read", check_prose)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", check_allow_list)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
