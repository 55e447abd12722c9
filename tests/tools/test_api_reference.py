"""The API reference names all that is public, and links to pages that its inventories list."""

from __future__ import annotations

import ast
import io
import zlib
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

from tools.inventories import FOLDER, make_inventory

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"
MODULES = ("", "collectives", "layout", "equality", "draw")
PLANNER = {"Plan", "PlanError", "plan"}  # it has a page of its own


def list_public(module: str) -> list[str]:
    """Read `__all__` without importing: no torch is here."""
    tree = ast.parse((ROOT / "src" / "fsdp_demo" / module / "__init__.py").read_text())
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "__all__"
    ]
    names: list[str] = ast.literal_eval(values[0])
    return names


@pytest.mark.parametrize("module", MODULES)
def test_each_public_name_is_documented(module: str) -> None:
    documented = {
        line.split("::")[1].strip().rpartition(".")[2]
        for line in PAGE.read_text().splitlines()
        if line.startswith(".. auto")
    }
    assert documented > set(list_public(module)) - PLANNER


@pytest.mark.parametrize("name", ["python", "torch"])
def test_an_inventory_is_that_of_its_text(name: str) -> None:
    """After a change of the text: python -m tools.inventories."""
    made = make_inventory((FOLDER / f"{name}.txt").read_text(), name)
    kept = (FOLDER / f"{name}.inv").read_bytes()
    assert read(kept) == read(made)


def read(inventory: bytes) -> tuple[bytes, ...]:
    """Take an inventory apart; what zlib makes of one text depends on its version."""
    *head, body = inventory.split(b"\n", 4)
    return (*head, zlib.decompress(body))


def test_sphinx_reads_an_inventory() -> None:
    made = make_inventory("# a comment\nlist class stdtypes.html#$\n", "python")
    found = InventoryFile.load(io.BytesIO(made), "https://example.org", join)
    assert found["py:class"]["list"].uri == "https://example.org/stdtypes.html#list"


def join(*parts: str) -> str:
    return "/".join(parts)
