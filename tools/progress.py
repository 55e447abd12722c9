"""A Sphinx extension: say which page is at work now, and how long it took.

Sphinx shows what its parallel readers log only when a reader is done with all its pages.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

_started_s: dict[str, float] = {}  # a page is read from start to end in one process


def setup(app: Sphinx) -> dict[str, Any]:
    """Watch the reading of pages, in which MyST-NB executes them."""
    app.connect("source-read", say_start)
    app.connect("doctree-read", say_end)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def say_start(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Name a page that has cells when its reading starts."""
    front_matter = source[0].partition("\n---")[0]
    if "file_format: mystnb" in front_matter:
        _started_s[docname] = time.monotonic()
        _say(f"{docname} ...")


def say_end(app: Sphinx, _doctree: nodes.document) -> None:
    """Name it again when it has been read."""
    docname = app.env.docname
    if docname in _started_s:
        _say(f"{docname} done in {time.monotonic() - _started_s.pop(docname):.1f} s")


def _say(line: str) -> None:
    """Write one whole line: two readers share the terminal."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
