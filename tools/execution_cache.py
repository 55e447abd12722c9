"""A Sphinx extension: cached outputs are shown only while what printed them is the same.

MyST-NB finds a page's outputs again by its cells and its kernel's name. What the cells import and
which torch runs them is no part of that, so a changed package would go on showing old outputs. Here
all of that decides in which folder the outputs are kept.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_cache import get_cache

from tools.halves import SITE_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.config import Config

ROOT = Path(__file__).resolve().parent.parent
CACHES = ROOT / "build" / "outputs"


def setup(app: Sphinx) -> dict[str, Any]:
    """Choose the cache before MyST-NB opens it."""
    app.connect("config-inited", choose_cache)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def choose_cache(_app: Sphinx, config: Config) -> None:
    """Point MyST-NB at the cache for what is there now, when it runs in the mode that has one."""
    if config.nb_execution_mode != "cache":
        return
    folders = os.environ.get("JUPYTER_PATH", "").split(os.pathsep)
    kernels = [Path(folder) / "kernels" for folder in folders if folder]
    cache = CACHES / hash_of(list_what_prints(ROOT / "src" / "fsdp_demo", kernels))
    config.nb_execution_cache_path = str(cache)
    # Parallel readers that all find no database all create one, and all but the first fail.
    _ = get_cache(cache).db


def list_what_prints(package: Path, kernels: list[Path]) -> Iterator[Path]:
    """Yield the modules that a cell can import and the kernels that can run it.

    A kernel's file says what its environment was made from (see tools/kernels.py).
    """
    for module in sorted(package.rglob("*.py")):
        if module.relative_to(package).parts[0] not in SITE_PACKAGES:
            yield module
    for folder in kernels:
        yield from sorted(folder.rglob("kernel.json"))


def hash_of(files: Iterator[Path]) -> str:
    """Return a name that changes with the name or content of any of `files`."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
