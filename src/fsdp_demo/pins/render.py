"""Take each page's executed cells from MyST-NB.

The renderer is the one place that sees the executed notebook on every path, a cache hit included
(the notebooks that MyST-NB writes to ``jupyter_execute`` have no outputs then).  The parser stands
around it: a page whose kernel doesn't exist or dies would end the whole build with a traceback
that names no page.
"""

from __future__ import annotations

import re
import traceback
from copy import copy
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import NoSuchKernel
from myst_nb.core.read import (  # type: ignore[import-untyped]
    MystMetadataParsingError,
    is_myst_markdown_notebook,
)
from myst_nb.core.render import MimeData, NbElementRenderer  # type: ignore[import-untyped]
from myst_nb.sphinx_ import Parser  # type: ignore[import-untyped]
from myst_parser.parsers.sphinx_ import MystParser
from nbclient.exceptions import DeadKernelError
from nbformat import ValidationError as NotebookValidationError
from sphinx.util import logging

from fsdp_demo.pins.cells import RAISES, Page, join_outputs, join_streams, read_cells
from fsdp_demo.pins.files import hash_source
from fsdp_demo.pins.findings import Finding, Kind
from fsdp_demo.pins.kernels import DEFAULT_KERNEL, find_kernels
from fsdp_demo.pins.notes import notes_of
from fsdp_demo.pins.pagetext import blank_front_matter, find_broken_text
from fsdp_demo.publish import UNSEEN

if TYPE_CHECKING:
    from docutils import nodes
    from nbformat import NotebookNode
    from sphinx.environment import BuildEnvironment

SOURCE_KEY = "fsdp_demo_pins_source"
"""Where the parser leaves the page's source for the renderer, for the time of one page."""
RENDERED_KEY = "fsdp_demo_pins_rendered"
"""Set by the renderer: a page's front matter can choose another one, which compares nothing."""
FAILED_KEY = "fsdp_demo_pins_failed"
"""Set while the prose of a page is read whose cells could not be executed."""

_UNREADABLE = re.compile(r"at line (\d+) could not be read: .*?msg='([^']*)'")
_LOGGER = logging.getLogger(__name__)


class PinRenderer(NbElementRenderer):  # type: ignore[misc] # MyST-NB has no types
    """Render as MyST-NB does, and keep what the page's cells declared and printed."""

    def render_nb_finalise(self, metadata: dict[str, Any]) -> None:
        """Keep the page, now that all of its cells were executed and rendered."""
        super().render_nb_finalise(metadata)
        env = self.renderer.sphinx_env
        if env is None:  # docutils without Sphinx: nobody will ask
            return
        env.temp_data[RENDERED_KEY] = True
        client = self.renderer.nb_client
        cells, run = client.notebook.cells, client.exec_metadata
        source = env.temp_data[SOURCE_KEY]
        kernel = (metadata.get("kernelspec") or {}).get("name", DEFAULT_KERNEL)
        kernels = find_kernels()
        # cell_line() is the line below the opening fence.
        lines = [client.cell_line(index) - 1 for index in range(len(cells))]
        page = Page(
            docname=env.docname,
            source_hash=hash_source(source),
            kernel=kernel,
            setting=kernels.get(kernel),
            cells=read_cells(cells, lines, source),
            stopped=run["error"] if run is not None and not run["succeeded"] else None,
            timeout_s=self.config.execution_timeout,
        )
        if not page.cells:
            return
        notes = notes_of(env)
        notes.pages[page.docname] = page
        if kernel not in kernels:  # and yet it ran: from MyST-NB's cache
            notes.add(page.docname, _find_no_kernel(kernel, source))
        elif page.setting is None:
            advice = 'Its kernel.json needs "metadata": {"fsdp_demo": {"torch": …, "build": …}}.'
            line = _kernel_line(source)
            notes.add(page.docname, Finding(Kind.UNKNOWN_SETTING, line, f"`{kernel}`", advice))

    def render_stdout(
        self,
        output: NotebookNode,
        cell_metadata: dict[str, Any],
        cell_index: int,
        source_line: int,
    ) -> list[nodes.Element]:
        """Show what a cell printed in a row as one block.

        It comes in as many pieces as timing made of it, so that each build would show other
        blocks. MyST-NB's own `nb_merge_streams` strips white space from the pieces, and leaves all
        but the first in the notebook, beside the joined text.
        """
        # In place: MyST-NB is walking this very list, and finds the later pieces gone.
        outputs = self.renderer.nb_client.notebook.cells[cell_index].outputs
        outputs[:] = join_streams(outputs)
        rendered: list[nodes.Element] = super().render_stdout(
            output, cell_metadata, cell_index, source_line
        )
        return rendered

    def render_mime_type(self, data: MimeData) -> list[nodes.Element]:
        """Render as MyST-NB does; what a cell publishes for the build alone shows nothing."""
        if UNSEEN.items() <= data.output_metadata.items():
            return []
        rendered: list[nodes.Element] = super().render_mime_type(data)
        return rendered

    def render_error(
        self,
        output: NotebookNode,
        cell_metadata: dict[str, Any],
        cell_index: int,
        source_line: int,
    ) -> list[nodes.Element]:
        """Show an expected error as its pin has it: its traceback has this machine's paths."""
        error = join_outputs([output])[2]
        if error is not None and RAISES in cell_metadata.get("tags", []):
            output = copy(output)
            output["traceback"] = [error.text.rstrip("\n")]
        rendered: list[nodes.Element] = super().render_error(
            output, cell_metadata, cell_index, source_line
        )
        return rendered


class PinParser(Parser):  # type: ignore[misc]
    """Parse as MyST-NB does; a page that can't be executed becomes a finding of that page."""

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse a page, or its prose alone where its cells can't be executed."""
        env: BuildEnvironment = document.settings.env
        env.temp_data[SOURCE_KEY] = inputstring
        env.temp_data[RENDERED_KEY] = False
        if broken := find_broken_text(inputstring):
            _note_failure(env, inputstring, broken)
            self._parse_prose(blank_front_matter(inputstring), document)
            return
        try:
            super().parse(inputstring, document)
        except Exception as error:
            renderer = document.attributes.pop("nb_renderer", None)
            if renderer is not None and "nb_client" in renderer.renderer.md_options:
                raise  # the cells ran: it is the rendering that is broken
            # As text: with `-j 2` the record is pickled, which a traceback can't be.
            _LOGGER.debug("%s could not be executed:\n%s", env.docname, traceback.format_exc())
            _note_failure(env, inputstring, _describe_failure(error, inputstring))
            self._parse_prose(inputstring, document)
        else:
            if is_myst_markdown_notebook(inputstring) and not env.temp_data[RENDERED_KEY]:
                line = _line_of(inputstring, "render_plugin")
                detail = "Its front matter sets `render_plugin`: no pin would be compared."
                _note_failure(env, inputstring, Finding(Kind.NOT_EXECUTED, line, detail))

    def _parse_prose(self, inputstring: str, document: nodes.document) -> None:
        """Parse a page's prose alone, or every link to the page would be reported too."""
        document.children.clear()
        document.settings.env.temp_data[FAILED_KEY] = True
        MystParser.parse(self, inputstring, document)


def _note_failure(env: BuildEnvironment, source: str, finding: Finding) -> None:
    """Note a page of which nothing else is known, so that its pins don't look obsolete."""
    notes, failure = notes_of(env), finding.message.splitlines()[0]
    notes.add(env.docname, finding)
    notes.pages[env.docname] = Page(env.docname, hash_source(source), failure=failure)


def _describe_failure(error: Exception, source: str) -> Finding:
    line = _failing_line(error)
    match error:
        case NoSuchKernel():
            return _find_no_kernel(error.name, source)
        case DeadKernelError():
            detail = "The kernel died: memory, or a cell that ends its own process?"
            return Finding(Kind.NOT_EXECUTED, line, detail)
        case MystMetadataParsingError() if found := _UNREADABLE.search(str(error)):
            return Finding(Kind.BAD_OPTION, int(found[1]), f"MyST-NB says: {found[2]}.")
        case NotebookValidationError():
            reason = str(error).splitlines()[0]
            return Finding(Kind.BAD_OPTION, line, f"{reason}: write `:tags: [some-tag]`.")
        case _:
            detail = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return Finding(Kind.NOT_EXECUTED, line, detail, "`sphinx-build -vv` says more.")


def _failing_line(error: Exception) -> int:
    """Find the cell that was read or run when a page failed: only these two frames know it."""
    trace = error.__traceback__
    while trace is not None:
        variables = trace.tb_frame.f_locals
        match trace.tb_frame.f_code.co_name, variables:
            case "read_myst_markdown_notebook", {"token": token} if token.map:
                return int(token.map[0]) + 1
            case "async_execute_cell", {"self": client, "cell_index": index}:
                return int(client.nb.metadata.get("source_map", [1] * (index + 1))[index])
        trace = trace.tb_next
    return 1


def _find_no_kernel(kernel: str, source: str) -> Finding:
    known = ", ".join(f"`{name}`" for name in find_kernels())
    detail = f"`{kernel}` is not one of {known}. `nox -s docs` makes the kernels."
    return Finding(Kind.UNKNOWN_KERNEL, _kernel_line(source), detail)


def _kernel_line(source: str) -> int:
    """Find the front matter's line that names the kernel."""
    lines = source.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("kernelspec:"):
            inside = lines[number:]
            names = (i for i, one in enumerate(inside, start=number + 1) if "name:" in one)
            return number if "name:" in line else next(names, number)
    return 1


def _line_of(source: str, word: str) -> int:
    lines = source.splitlines()
    return next((number for number, line in enumerate(lines, start=1) if word in line), 1)
