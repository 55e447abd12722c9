"""Find an object's source in an installed package, without importing the package.

The site is built where no torch is installed, and importing one only to read a docstring would
cost seconds a page. The files are enough: Python's own parser says where an object starts and ends.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


class ObjectNotFoundError(LookupError):
    """The dotted name leads to nothing; the message says how far it got."""


@dataclass(frozen=True, slots=True)
class SourceObject:
    """A module, class or function as it stands in a file.

    Attributes:
        name: Dotted name, as it was asked for.
        path: The file, relative to site-packages, with forward slashes.
        first_line: Line of the file, counted from 1, at which `lines` starts.
        lines: The object's own lines, decorators and comments included.

    """

    name: str
    path: str
    first_line: int
    lines: tuple[str, ...]


def find_object(site_packages: Path, name: str) -> SourceObject:
    """Find `name`, such as ``torch.distributed.fsdp.api.ShardingStrategy``.

    The name is that of the module that defines the object, since that is the file a reader will
    be sent to. A name that a package merely re-exports is not followed.

    Raises:
        ObjectNotFoundError: no such module, or no such class or function in it.

    """
    module, attributes = _split_module(site_packages, name)
    tree, lines = _parse(module)
    path = module.relative_to(site_packages).as_posix()
    node: ast.AST = tree
    for attribute in attributes:
        found = _find_definition(node, attribute)
        if found is None:
            msg = f"{path} defines no {'.'.join(attributes)}"
            raise ObjectNotFoundError(msg)
        node = found
    if isinstance(node, ast.Module):
        return SourceObject(name, path, 1, lines)
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)  # noqa: S101  # mypy
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return SourceObject(name, path, first, lines[first - 1 : node.end_lineno])


def _split_module(site_packages: Path, name: str) -> tuple[Path, list[str]]:
    """Split a dotted name into the longest prefix that is a file, and what is left of it."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        stem = site_packages.joinpath(*parts[:length])
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.is_file():
                return file, parts[length:]
    msg = f"no module {parts[0]!r} is installed"
    raise ObjectNotFoundError(msg)


@lru_cache(maxsize=32)
def _parse(module: Path) -> tuple[ast.Module, tuple[str, ...]]:
    text = module.read_text(encoding="utf-8")
    return ast.parse(text), tuple(text.splitlines())


def _find_definition(parent: ast.AST, name: str) -> ast.AST | None:
    """Find a class or function by name, also below an ``if`` or ``try`` of its module."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if child.name == name:
                return child
        elif isinstance(child, ast.If | ast.Try) and (found := _find_definition(child, name)):
            return found
    return None
