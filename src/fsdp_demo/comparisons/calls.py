"""Find each call of FSDP in a page's cells, in the scripts they write too."""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.pins.cells import Cell, Page

CLASS = "FullyShardedDataParallel"
_ASKS = ("isinstance", "issubclass")
_CELL_MAGIC = re.compile(r"%%writefile\b")
_LINE_MAGIC = re.compile(r"^(\s*)[%!].*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of FSDP's class, such as ``FSDP(model, …)``, or a place that hands the class on."""

    cell: Cell
    first_line: int
    """The page's line on which it starts."""
    last_line: int
    handed_on: bool
    """Whether it is an argument, as in ``partial(FSDP, …)``: who calls it then is not seen."""


def find_calls(page: Page) -> Iterator[Call]:
    """Yield the calls of FSDP's class in a page's code, under whatever name it was imported."""
    trees = [(cell, _parse(cell.source)) for cell in page.cells]
    names = {CLASS}
    for _, tree in trees:
        names.update(_list_aliases(tree))
    for cell, tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = _name(node.func)
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            handed_on = called not in _ASKS and any(_name(value) in names for value in values)
            if called in names or handed_on:
                yield Call(cell, *_list_ends(cell, node), handed_on=called not in names)


def _list_ends(cell: Cell, node: ast.Call) -> tuple[int, int]:
    start, end = node.lineno, node.end_lineno or node.lineno
    return cell.code_line + start - 1, cell.code_line + end - 1


def _parse(source: str) -> ast.Module:
    """Parse a cell, or the script that it writes; another language's cell has no calls."""
    if _CELL_MAGIC.match(source):
        source = "#" + source  # a comment in a magic's place keeps the lines where they are
    for text in (source, _LINE_MAGIC.sub(r"\1pass", source)):
        with contextlib.suppress(SyntaxError):
            return ast.parse(text)
    return ast.Module([], [])


def _list_aliases(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the class is given, by import or by assignment."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=names):
                yield from (each.asname for each in names if each.name == CLASS and each.asname)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _name(value) == CLASS:
                yield name


def _name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None
