"""A Sphinx extension: a page states what `nox -s bench` measured, and can't state anything else.

- ``{measured}`cell-4-spawn` `` writes a figure with its unit;
- ``{measured-times}`cell-4-spawn-to-script` `` writes a ratio the other way round, as "36";
- ``{measured-on}`cores` `` writes what the figures were measured on;
- ``{measured-table}`` lists the figures that its lines name; a name may end in ``*``;
- ``{measured-scale}`` draws times: its lines are ``launcher: its name in the figure``.

The figures are a committed file. A name that it does not hold, or a file from another torch than
the pages run on, fails the build.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from fsdp_demo.draw import Mark, ScaleRow, draw_scale
from fsdp_demo.prose.extension import FACT_CLASS
from tools.bench.figures import RATIO, Figure, show, show_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

MEASURE = "`nox -s bench -- --json docs/{file}`"


class MeasuredError(Exception):
    """The file holds no figures that a page could state, or not this one."""

    def __init__(self, message: str, line: int = 1) -> None:
        """Keep the file's line apart, where it is known."""
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Measured:
    """A run of the bench, as its file tells it."""

    measured_on: Mapping[str, str]
    figures: Mapping[str, Figure]
    missing: Mapping[str, str]
    """Why a figure could not be measured, by its name."""

    def find(self, name: str) -> Figure:
        """Return the figure of that name.

        Raises:
            MeasuredError: there is none.
        """
        if name in self.missing:
            raise MeasuredError(f"{name!r} was not measured: {self.missing[name]}")
        if name not in self.figures:
            near = difflib.get_close_matches(name, self.figures, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise MeasuredError(f"no figure {name!r} was measured{hint}")
        return self.figures[name]

    def find_all(self, pattern: str) -> Iterator[Figure]:
        """Yield the figures that a name, or a name with ``*``, stands for.

        Raises:
            MeasuredError: there are none.
        """
        if "*" not in pattern:
            yield self.find(pattern)
            return
        names = [name for name in self.figures if fnmatchcase(name, pattern)]
        if not names:
            raise MeasuredError(f"no figure's name is like {pattern!r}")
        yield from (self.figures[name] for name in names)


def read_measured(file: Path) -> Measured:
    """Read what the bench wrote.

    Raises:
        MeasuredError: the file is not there, or not of the bench's form.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        figures = {name: Figure(name=name, **fields) for name, fields in content["figures"].items()}
        missing = {name: fields["reason"] for name, fields in content["missing"].items()}
        return Measured(content["measured-on"], figures, missing)
    except FileNotFoundError:
        raise MeasuredError("it is not there") from None
    except json.JSONDecodeError as error:
        raise MeasuredError(f"it is no JSON ({error.msg})", error.lineno) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MeasuredError(f"it is not what the bench writes ({error})") from None


def check_file(app: Sphinx) -> None:
    """Warn, at the file's line, of figures that were measured on another torch than the pages'."""
    file = Path(app.srcdir, app.config.measured_file)
    kernel = app.config.measured_kernel
    try:
        found = read_measured(file).measured_on.get("torch", "an unknown version")
        wanted = KernelSpecManager().get_kernel_spec(kernel).metadata["fsdp_demo"]["torch"]
    except MeasuredError as error:
        _warn(f"{error}; {_remedy(app)}", f"{file}:{error.line}", "file")
    except NoSuchKernel:
        _warn(f"no kernel {kernel!r} is there to compare it with", f"{file}:1", "file")
    else:
        if found != wanted:
            message = f"measured on torch {found}, and {kernel!r} runs torch {wanted}"
            _warn(f"{message}; {_remedy(app)}", f"{file}:{_find_line(file, 'torch')}", "torch")


def _remedy(app: Sphinx) -> str:
    return "run " + MEASURE.format(file=app.config.measured_file)


def _find_line(file: Path, key: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if f'"{key}":' in line), 1)


def _warn(message: str, location: str | tuple[str, int], subtype: str) -> None:
    logger.warning(message, location=location, type="measured", subtype=subtype)


def _read(env: BuildEnvironment) -> Measured | None:
    """Read the file for a page, which is read again when the file changes; None: it is broken."""
    file = Path(env.srcdir, env.config.measured_file)
    env.note_dependency(str(file))
    try:
        return read_measured(file)
    except MeasuredError:
        return None  # said once, at the file itself


class MeasuredRole(SphinxRole):
    """Write something of the run in a sentence."""

    def __init__(self, write: Callable[[Measured, str], str]) -> None:
        super().__init__()
        self.write = write

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Look it up; without it, warn at this line."""
        measured = _read(self.env)
        if measured is None:
            return [nodes.inline("", f"[{self.text}]", classes=[FACT_CLASS])], []
        try:
            text = self.write(measured, self.text.strip())
        except MeasuredError as error:
            _warn(str(error), (self.env.docname, self.lineno), "name")
            text = f"[{self.text}]"
        return [nodes.inline("", text, classes=[FACT_CLASS])], []


def write_figure(measured: Measured, name: str) -> str:
    """Write a figure with its unit.

    Raises:
        MeasuredError: there is none of that name.
    """
    figure = measured.find(name)
    return show(figure.value, figure.unit)


def write_times(measured: Measured, name: str) -> str:
    """Write how many times as much the other thing of a ratio is.

    Raises:
        MeasuredError: there is no ratio of that name.
    """
    figure = measured.find(name)
    if figure.unit != RATIO:
        raise MeasuredError(f"{name!r} is no ratio")
    times = 1 / figure.value
    return f"{times:,.0f}" if times >= 10 else f"{times:.2g}"  # noqa: PLR2004  # two digits


def write_setting(measured: Measured, key: str) -> str:
    """Write what the figures were measured on.

    Raises:
        MeasuredError: the file says nothing of it.
    """
    try:
        return measured.measured_on[key]
    except KeyError:
        known = ", ".join(measured.measured_on)
        raise MeasuredError(f"what {key!r} was is not in the file; it has {known}") from None


class _Lines(SphinxDirective):
    """A directive whose lines name figures; a fault is said at its own line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Build what the lines ask for."""
        measured = _read(self.env)
        if measured is None:
            return []
        made = []
        for number, text in enumerate(self.content, self.lineno + 1):  # below the opening fence
            try:
                made += self.read_line(measured, text.strip())
            except MeasuredError as error:
                _warn(str(error), (self.env.docname, number), "name")
        return self.build(made) if made else []

    def read_line(self, measured: Measured, line: str) -> list[Any]:
        """Return what a line stands for; raise MeasuredError if nothing."""
        raise NotImplementedError

    def build(self, made: list[Any]) -> list[nodes.Node]:
        """Build the nodes from what all lines stand for."""
        raise NotImplementedError


class MeasuredTable(_Lines):
    """A table of figures, with their spread, and their bars if any has one."""

    def read_line(self, measured: Measured, line: str) -> list[Any]:
        """Return the figures that a line names."""
        return list(measured.find_all(line))

    def build(self, made: list[Any]) -> list[nodes.Node]:
        """Build the table; its numbers are facts of the run."""
        figures: list[Figure] = made
        barred = any(figure.at_most is not None for figure in figures)
        heads = [["what"], ["measured"], *([["at most"]] if barred else [])]
        group = nodes.tgroup("", cols=len(heads))
        group += [nodes.colspec("", colwidth=1) for _ in heads]
        group += nodes.thead("", _row(heads))
        body = nodes.tbody()
        for figure in figures:
            cells = [[figure.what], _tell_value(figure), *([_tell_bar(figure)] if barred else [])]
            body += _row(cells)
        group += body
        table = nodes.table("", group, classes=[FACT_CLASS, "measured"])
        self.set_source_info(table)
        return [table]


def _tell_value(figure: Figure) -> list[str]:
    value = show(figure.value, figure.unit)
    if figure.rounds == 1 or figure.least is None or figure.most is None:
        return [value]
    return [value, show_spread(figure.least, figure.most)]


def _tell_bar(figure: Figure) -> list[str]:
    if figure.at_most is None:
        return []
    return [show(figure.at_most, figure.unit), "met" if figure.is_met else "not met"]


def _row(cells: list[list[str]]) -> nodes.row:
    """Build a row; a cell is its lines, in which backquotes mark code."""
    row = nodes.row()
    for lines in cells:
        entry = nodes.entry()
        for line in lines:
            paragraph = nodes.paragraph()
            for index, part in enumerate(line.split("`")):
                paragraph += nodes.literal("", part) if index % 2 else nodes.Text(part)
            entry += paragraph
        row += entry
    return row


class MeasuredScale(_Lines):
    """A figure of launchers' times with two and with four ranks; its argument is its title."""

    required_arguments = 1
    final_argument_whitespace = True
    series: ClassVar[Mapping[str, str]] = {"2 ranks": "cell-2-{}", "4 ranks": "cell-4-{}"}

    def read_line(self, measured: Measured, line: str) -> list[Any]:
        """Return a launcher's marks."""
        launcher, _, name = line.partition(":")
        marks = []
        for series, pattern in self.series.items():
            figure = measured.find(pattern.format(launcher.strip()))
            least, most = figure.least or figure.value, figure.most or figure.value
            marks.append(Mark(series, figure.value, least, most))
        return [ScaleRow(name.strip() or launcher.strip(), tuple(marks))]

    def build(self, made: list[Any]) -> list[nodes.Node]:
        """Build the figure, as an element of the page."""
        figure = draw_scale(self.arguments[0], made)
        return [nodes.raw("", figure._repr_html_(), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the roles, the directives and the check with Sphinx."""
    app.add_config_value("measured_file", "_measured/bench.json", "env", types=frozenset({str}))
    app.add_config_value("measured_kernel", "", "env", types=frozenset({str}))
    app.add_role("measured", MeasuredRole(write_figure))
    app.add_role("measured-times", MeasuredRole(write_times))
    app.add_role("measured-on", MeasuredRole(write_setting))
    app.add_directive("measured-table", MeasuredTable)
    app.add_directive("measured-scale", MeasuredScale)
    app.connect("builder-inited", check_file)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
