"""Cached outputs are found again exactly while what printed them is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.execution_cache import hash_of, list_what_prints

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in ("layout.py", "launch/job.py", "pins/compare.py"):
        file = tmp_path / "fsdp_demo" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    return tmp_path / "fsdp_demo"


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    file = tmp_path / "kernels" / "torch-2.2.2" / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return tmp_path / "kernels"


@pytest.mark.parametrize(
    "changed",
    ["fsdp_demo/layout.py", "fsdp_demo/launch/job.py", "kernels/torch-2.2.2/kernel.json"],
)
def test_changes_with_what_prints(
    package: Path, kernels: Path, tmp_path: Path, changed: str
) -> None:
    before = hash_of(list_what_prints(package, [kernels]))
    (tmp_path / changed).write_text("x = 2\n")
    assert hash_of(list_what_prints(package, [kernels])) != before


def test_stays_when_what_runs_in_sphinx_changes(package: Path, kernels: Path) -> None:
    before = hash_of(list_what_prints(package, [kernels]))
    (package / "pins" / "compare.py").write_text("x = 2\n")
    assert hash_of(list_what_prints(package, [kernels])) == before


def test_changes_when_a_module_is_removed(package: Path, kernels: Path) -> None:
    before = hash_of(list_what_prints(package, [kernels]))
    (package / "layout.py").unlink()
    assert hash_of(list_what_prints(package, [kernels])) != before
