"""What a page's code cells declared and printed, as plain data.

A :class:`Page` is all that the later steps know of a run: it is kept in Sphinx's environment, so
that a page that isn't read again keeps its findings, and written to disk, so that accepting a pin
needs no second run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fsdp_demo.publish import COMPARISON_MIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

UNPINNED = "unpinned"
"""The tag of a cell whose output is not reviewed."""
RAISES = "raises-exception"
"""The tag, MyST-NB's own, of a cell whose error is its lesson."""
TIMEOUT_ERROR = "CellTimeoutError"
"""What a run was stopped by when a cell took longer than ``nb_execution_timeout``."""

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# What a SyntaxError names in place of a file, and its line in there.
_CELL_FILE = re.compile(r" \(\d+\.py, line \d+\)$")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a kernel runs on, as its kernelspec says."""

    torch: str
    """The torch version, such as ``2.2.2``."""
    build: str
    """How that torch was built: ``cpu``, or ``cu`` and the digits of CUDA's version."""


@dataclass(frozen=True, slots=True)
class CellError:
    """The error that a cell raised."""

    ename: str
    evalue: str
    traceback: str

    @property
    def summary(self) -> str:
        """The error as Python's last line has it: ``Type: message``."""
        evalue = _CELL_FILE.sub("", self.evalue)
        return f"{self.ename}: {evalue}" if evalue else self.ename

    @property
    def renders_itself(self) -> bool:
        """Whether the error chose its own text, as a rank's does: it has no frame of IPython's."""
        return self.traceback.startswith(f"{self.ename}:")

    @property
    def text(self) -> str:
        """What a page shows of an expected error, and its pin holds.

        IPython's own traceback has this machine's paths: only its last line is taken.
        """
        return self.traceback if self.renders_itself else self.summary


@dataclass(frozen=True, slots=True)
class Cell:
    """One code cell: what it declared, and what it printed."""

    line: int
    """The page's line of the opening fence."""
    code_line: int
    """The page's line of the first line of code."""
    source: str
    options: Mapping[str, Any]
    count: int | None
    """The kernel's execution count (the ``3`` of ``In[3]``); None when the cell did not run."""
    text: str = ""
    """The joined stdout and, each on lines of its own, the values shown."""
    stderr: str = ""
    error: CellError | None = None
    comparisons: tuple[Mapping[str, Any], ...] = ()
    """What `fsdp_demo.equality.hold_to_plain` published in the cell."""

    @property
    def label(self) -> str | None:
        """The pin's label, or None where the cell names none, or one that is no slug."""
        label = self.options.get("pin")
        return label if isinstance(label, str) and _SLUG.fullmatch(label) else None

    @property
    def tags(self) -> tuple[str, ...]:
        """The cell's tags, none where they aren't a list."""
        tags = self.options.get("tags")
        return tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()

    @property
    def failed(self) -> bool:
        """Whether the cell raised without saying so."""
        return self.error is not None and RAISES not in self.tags

    @property
    def printed(self) -> str:
        """What is compared with the pin: the text and, in a raising cell, its error."""
        if self.error is None:
            return self.text
        return end_line(self.text) + end_line(self.error.text)


@dataclass(frozen=True, slots=True)
class Page:
    """One page as the last build read it."""

    docname: str
    source_hash: str
    kernel: str | None = None
    setting: Setting | None = None
    cells: tuple[Cell, ...] = ()
    stopped: str | None = None
    """The error that stopped the run before the page's end."""
    timeout_s: int | None = None
    """How long one cell may take."""
    failure: str | None = None
    """Why the page could not be executed at all; it has no cells then."""

    @property
    def timed_out(self) -> Cell | None:
        """The cell that took too long: the last one that was started."""
        started = [cell for cell in self.cells if cell.count is not None]
        return started[-1] if self.stopped == TIMEOUT_ERROR and started else None


def end_line(text: str) -> str:
    """End a text's last line, so that what follows starts a new one."""
    return text if not text or text.endswith("\n") else text + "\n"


def strip_ansi(text: str) -> str:
    """Remove the color codes that IPython puts into a traceback."""
    return _ANSI.sub("", text)


def join_outputs(outputs: Iterable[Mapping[str, Any]]) -> tuple[str, str, CellError | None]:
    """Join a cell's outputs (in Jupyter's notebook format) to text, stderr and error.

    stdout may come in several pieces, depending on timing: they are joined as they are.
    A value that was shown begins and ends a line.  Of a picture only its text, such as
    ``<Figure size 640x480 with 1 Axes>``, is compared.
    """
    text, stderr, error = "", "", None
    for output in outputs:
        match output["output_type"]:
            case "stream" if output["name"] == "stderr":
                stderr += output["text"]
            case "stream":
                text += output["text"]
            case "error":
                error = CellError(
                    output["ename"],
                    strip_ansi(output["evalue"]),
                    strip_ansi("\n".join(output["traceback"])),
                )
            case _ if "text/plain" in output["data"]:
                text = end_line(text) + end_line(output["data"]["text/plain"])
    return text, stderr, error


def join_streams(outputs: Sequence[Any]) -> list[Any]:
    """Join a cell's neighboring pieces of one stream, to the letter; other outputs stay."""
    joined: list[Any] = []
    for output in outputs:
        before = joined[-1] if joined else None
        if (
            before is not None
            and output["output_type"] == before["output_type"] == "stream"
            and output["name"] == before["name"]
        ):
            before["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def read_cells(
    notebook_cells: Sequence[Mapping[str, Any]], lines: Sequence[int], page_source: str
) -> tuple[Cell, ...]:
    """Read the code cells of an executed notebook (in Jupyter's notebook format).

    ``lines[i]`` is the line of cell i's opening fence in ``page_source``.
    """
    page_lines = page_source.splitlines()
    cells = []
    for notebook_cell, line in zip(notebook_cells, lines, strict=True):
        if notebook_cell["cell_type"] != "code":
            continue
        source = notebook_cell["source"]
        text, stderr, error = join_outputs(notebook_cell["outputs"])
        cells.append(
            Cell(
                line=line,
                code_line=_find_code(page_lines, line, source.splitlines()),
                source=source,
                options=dict(notebook_cell["metadata"]),
                count=notebook_cell["execution_count"],
                text=text,
                stderr=stderr,
                error=error,
                comparisons=_list_comparisons(notebook_cell["outputs"]),
            )
        )
    return tuple(cells)


def _list_comparisons(outputs: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    bundles = (output.get("data", {}) for output in outputs)
    return tuple(dict(data[COMPARISON_MIME]) for data in bundles if COMPARISON_MIME in data)


def _find_code(page_lines: Sequence[str], fence_line: int, code: Sequence[str]) -> int:
    """Find the line where a cell's code starts: below the fence and the options, which vary."""
    stripped = [line.strip() for line in code]
    for start in range(fence_line, len(page_lines) - len(code) + 1):
        if [line.strip() for line in page_lines[start : start + len(code)]] == stripped:
            return start + 1
    return fence_line + 1
