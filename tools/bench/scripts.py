"""Make a plain script of a lesson: its own cells, with ranks started by `torch.multiprocessing`.

The script is made from the page as it is, so it can't fall behind. Each of its calls of `spawn`
starts new processes by `mp.spawn`, which import the script again, as that launcher does. So what a
rank needs stands at the script's top level, and what starts ranks or prints stands under
``if __name__ == "__main__":``, as anyone has to write it.
"""

from __future__ import annotations

import ast
import shutil
import symtable
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from myst_nb.core.read import (  # type: ignore[import-untyped]
    read_myst_markdown_notebook,
)

from tools.bench.processes import BenchFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LAUNCH = Path(__file__).parent / "ranks" / "plain_spawn.py"
MARK = "%% "  # before each pinned cell's output: its label

_FROM_LAUNCH = ("display", "fact", "show_last", "spawn")
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A page's code cell, as statements."""

    label: str | None
    statements: tuple[ast.stmt, ...]


def write_scripts(pages: Iterable[Path], folder: Path) -> list[Path]:
    """Write a script for each page into `folder`, with the module that they import.

    Raises:
        BenchFault: a page can't be made a script.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(LAUNCH, folder)
    scripts = []
    for page in pages:
        script = folder / f"lesson_{page.stem.replace('-', '_')}.py"
        script.write_text(make_script(page), encoding="utf-8")
        scripts.append(script)
    return scripts


def make_script(page: Path) -> str:
    """Return a page's cells as one script.

    Raises:
        BenchFault: a cell is no Python, or the page has none.
    """
    cells = list(_read_cells(page))
    if not any(cell.statements for cell in cells):
        raise BenchFault(f"{page.name} has no code cell to make a script of")
    _check_names(page, cells)
    needed = _find_needed(statement for cell in cells for statement in cell.statements)
    top: list[ast.stmt] = [
        ast.ImportFrom("plain_spawn", [ast.alias(name) for name in _FROM_LAUNCH], 0)
    ]
    main: list[ast.stmt] = []
    for cell in cells:
        if cell.label is not None:
            main += ast.parse(f"print({MARK + cell.label!r}, flush=True)").body
        for statement in cell.statements:
            (top if _belongs_on_top(statement, needed) else main).append(statement)
    guard = ast.parse("if __name__ == '__main__': pass").body[0]
    assert isinstance(guard, ast.If)  # noqa: S101  # for mypy
    guard.body = main
    module = ast.fix_missing_locations(ast.Module([*top, guard], []))
    return f'"""Made from {page.name}: its cells, as a script."""\n\n{ast.unparse(module)}\n'


def split_output(printed: str) -> dict[str, str]:
    """Return what a script printed for each pinned cell, by its label."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in printed.splitlines(keepends=True):
        if line.startswith(MARK):
            lines = sections.setdefault(line.removeprefix(MARK).strip(), [])
        else:
            lines.append(line)
    return {label: "".join(lines) for label, lines in sections.items()}


def find_different(page: Path, printed: str) -> list[str]:
    """Return the labels of the cells whose script printed something else than the page does.

    What may differ with torch's build may be any build's here.
    """
    pins_file = page.parents[1] / "_pins" / page.parent.name / f"{page.stem}.toml"
    pins = tomllib.loads(pins_file.read_text(encoding="utf-8"))["pins"]
    printed_by = split_output(printed)
    different = [label for label in printed_by if label not in pins]
    labels = {cell.label for cell in _read_cells(page)}
    for label, pin in pins.items():
        if label not in labels:
            continue
        wanted = pin.values() if isinstance(pin, dict) else [pin]
        if printed_by.get(label, "").strip() not in [text.strip() for text in wanted]:
            different.append(label)
    return different


def _read_cells(page: Path) -> Iterator[_Cell]:
    """Read a page the way that the build reads it."""
    notebook = read_myst_markdown_notebook(page.read_text(encoding="utf-8"))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            try:
                statements = _parse(cell.source)
            except SyntaxError as error:
                where = f"{page.name}, the cell that begins {cell.source.splitlines()[0]!r}"
                raise BenchFault(f"{where}: it is no Python ({error.msg})") from None
            if not any(map(_is_check, statements)):
                yield _Cell(cell.metadata.get("pin"), tuple(statements))


def _is_check(statement: ast.stmt) -> bool:
    """Whether a cell with this statement compares the lesson with the plain model.

    It is a check of the site, and no part of the lesson's program.
    """
    return isinstance(statement, ast.ImportFrom) and statement.module == "fsdp_demo.equality"


def _check_names(page: Path, cells: Iterable[_Cell]) -> None:
    """Refuse a page that defines a function twice: at a script's top level the last one wins."""
    seen: set[str] = set()
    for cell in cells:
        for statement in cell.statements:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                if statement.name in seen:
                    raise BenchFault(f"{page.name} defines {statement.name} twice")
                seen.add(statement.name)


def _parse(source: str) -> list[ast.stmt]:
    """Parse a cell; write a file as its first line says; show its last value as a notebook does."""
    first, _, rest = source.partition("\n")
    if first.startswith("%%writefile "):
        *flags, name = first.split()[1:]
        mode, verb = ("a", "Appending to") if flags == ["-a"] else ("w", "Writing")
        return ast.parse(
            f"print({f'{verb} {name}'!r})\n"
            f"with open({name!r}, {mode!r}) as file: file.write({rest + chr(10)!r})"
        ).body
    statements = [_without_launch(statement) for statement in ast.parse(source).body]
    last = statements[-1] if statements else None
    if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
        last.value = ast.Call(ast.Name("show_last", ast.Load()), [last.value], [])
    return statements


def _without_launch(statement: ast.stmt) -> ast.stmt:
    """Take out of an import what the script imports from `plain_spawn`."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "fsdp_demo":
        statement.names = [n for n in statement.names if n.name not in _FROM_LAUNCH]
        if not statement.names:
            return ast.Pass()
    return statement


def _belongs_on_top(statement: ast.stmt, needed: Mapping[str, ast.stmt]) -> bool:
    return isinstance(statement, _DEFINITIONS) or any(
        statement is assignment for assignment in needed.values()
    )


def _find_needed(statements: Iterable[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the assignments that functions and classes read, by name; ranks need these too."""
    assigned: dict[str, ast.stmt] = {}
    wanted: list[str] = []
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            wanted += _read_globally(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and not _starts_ranks(statement):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, statement)
    needed: dict[str, ast.stmt] = {}
    while wanted:
        name = wanted.pop()
        if name in assigned and name not in needed:
            needed[name] = assigned[name]
            wanted += _read_globally(assigned[name])
    return needed


def _read_globally(statement: ast.stmt) -> list[str]:
    """Return the module's names that a statement reads, at any depth."""
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    names = [symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()]
    inner = list(table.get_children())
    while inner:
        scope = inner.pop()
        names += [symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()]
        inner += scope.get_children()
    return names


def _starts_ranks(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "spawn" for n in ast.walk(statement))
