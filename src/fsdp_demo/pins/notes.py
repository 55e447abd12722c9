"""What a build knows of the pages it read, kept in Sphinx's environment.

The environment is pickled: between builds, and from the processes of ``sphinx-build -j`` to their
parent.  So a page that this build, or this process, didn't read is still there to be reviewed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsdp_demo.pins.cells import Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.environment import BuildEnvironment

    from fsdp_demo.pins.findings import Finding

_ATTRIBUTE = "fsdp_demo_pins"


@dataclass(slots=True)
class Notes:
    """The pages with code cells, and what was found wrong while pages were read."""

    pages: dict[str, Page] = field(default_factory=dict)
    found: dict[str, list[Finding]] = field(default_factory=dict)

    def add(self, docname: str, finding: Finding) -> None:
        """Note something that is wrong with a page, once."""
        findings = self.found.setdefault(docname, [])
        if finding not in findings:
            findings.append(finding)

    def page(self, docname: str) -> Page:
        """Return a page, one without cells where it has none."""
        return self.pages.get(docname) or Page(docname, source_hash="")

    def forget(self, docname: str) -> None:
        """Drop a page that is to be read again, or is gone."""
        self.pages.pop(docname, None)
        self.found.pop(docname, None)

    def take(self, docnames: Iterable[str], other: Notes) -> None:
        """Take over the pages that another process read."""
        for docname in docnames:
            self.forget(docname)
            if docname in other.pages:
                self.pages[docname] = other.pages[docname]
            if docname in other.found:
                self.found[docname] = other.found[docname]


def notes_of(env: BuildEnvironment) -> Notes:
    """Return the environment's notes; a new environment gets empty ones."""
    notes = getattr(env, _ATTRIBUTE, None)
    if not isinstance(notes, Notes):
        notes = Notes()
        setattr(env, _ATTRIBUTE, notes)
    return notes


def could_not_run(env: BuildEnvironment) -> bool:
    """Return whether the page that is being read is reported already, as one that can't be run."""
    return notes_of(env).page(env.docname).failure is not None
