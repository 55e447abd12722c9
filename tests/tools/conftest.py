"""Two tiny package indexes on this machine, which serve a torch of a few lines."""

from __future__ import annotations

import base64
import hashlib
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CPU_WHEEL = "torch-2.2.2+cpu-py3-none-any.whl"
PACKAGE_WHEEL = "torch-2.2.2-py3-none-any.whl"  # what the package index calls its CUDA build


def write_torch_wheel(wheel: Path, cuda: str | None) -> None:
    """Write a wheel of a torch that knows its build and nothing else."""
    version = wheel.name.split("-")[1]
    about = f"torch-{version}.dist-info"
    files = {
        "torch/__init__.py": "from torch import version\n",
        "torch/version.py": f"cuda = {cuda!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{name},sha256={digest.decode()},{len(text)}\n"
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@dataclass
class Indexes:
    """Serves `folder`: a page for a path that ends in a slash, else the file of that name.

    `broken` names files that are answered with an error, `held` files that are answered only once
    `release` is set.
    """

    folder: Path
    url: str = ""
    broken: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    release: threading.Event = field(default_factory=threading.Event)
    asked_for_held: threading.Event = field(default_factory=threading.Event)

    @property
    def package_index(self) -> str:
        """Serves torch 2.2.2 as a package index does: the CUDA build."""
        return f"{self.url}/packages"

    @property
    def cpu_index(self) -> str:
        """Serves torch 2.2.2+cpu."""
        return f"{self.url}/cpu"


class _Handler(BaseHTTPRequestHandler):
    indexes: Indexes

    def do_GET(self) -> None:
        index, _, name = self.path.lstrip("/").partition("/")
        folder = self.indexes.folder / index
        if name == "torch/":
            links = "".join(f'<a href="../{w.name}">{w.name}</a>' for w in folder.iterdir())
            self._answer(200, links.encode(), "text/html")
            return
        name = name.replace("%2B", "+")
        if name in self.indexes.held:
            self.indexes.asked_for_held.set()
            self.indexes.release.wait(timeout=60)
        file = folder / name
        if name in self.indexes.broken or not file.is_file():
            self._answer(404, b"", "text/plain")
        else:
            self._answer(200, file.read_bytes(), "application/octet-stream")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the requests out of what the tests capture."""


@pytest.fixture
def indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Indexes]:
    """Both indexes, with pip told to use the package index and nothing else."""
    folder = tmp_path / "indexes"
    for index in ("packages", "cpu"):
        (folder / index).mkdir(parents=True)
    write_torch_wheel(folder / "packages" / PACKAGE_WHEEL, cuda="12.1")
    write_torch_wheel(folder / "cpu" / CPU_WHEEL, cuda=None)
    indexes = Indexes(folder)
    handler = type("Handler", (_Handler,), {"indexes": indexes})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    indexes.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", indexes.package_index)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    yield indexes
    indexes.release.set()
    server.shutdown()
    thread.join()
    server.server_close()
