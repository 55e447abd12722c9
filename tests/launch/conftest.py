"""What tests of the launcher share: the check that a run leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from fsdp_demo.launch.client import Shared

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After the test nothing is left but the fork server and its folder: no process, no file."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    server = Shared.client
    left = psutil.Process().children(recursive=True)
    assert [child for child in left if server is None or child.pid != server.process.pid] == []
    assert [path for path in folder.iterdir() if server is None or str(path) != server.folder] == []
    assert server is None or list(Path(server.folder).glob("run-*")) == []
