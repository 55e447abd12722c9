"""How the site is built: the arguments that Sphinx gets, whoever calls it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Twice as many pages at a time as a small machine has cores: each waits a good part of its time.
READERS = "4"


def list_build_arguments(execution_mode: str, doctrees: str, html: str) -> list[str]:
    """Return Sphinx's arguments; `execution_mode` is MyST-NB's, "force" or "cache".

    The paths are seen from the checkout, where Sphinx is to be called.
    """
    # Quiet: what is left are the pages as they run, and the findings.
    return [
        *("-q", "-W", "--keep-going", "-j", READERS, "-c", ".", "-b", "html", "-d", doctrees),
        *("-D", f"nb_execution_mode={execution_mode}", "docs", html),
    ]


def make_empty(folder: Path) -> None:
    """Make a folder, or empty the one that is there.

    Raises:
        OSError: It can't be; without this Sphinx would say so after all pages ran, and at length.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
