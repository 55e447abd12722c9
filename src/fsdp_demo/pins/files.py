"""How files are written, named in messages, and told from their older selves."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a text so that a reader, or an interrupt, meets the old file or the new one.

    An existing file's mode is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        temporary.chmod(_mode_of(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def hash_source(source: str) -> str:
    """Return a hash of a page's source, by which an older record is known."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def find_bad_line(error: UnicodeDecodeError) -> int:
    """Find the line of the first byte that is not UTF-8, in a file that was read as a whole."""
    return error.object.count(b"\n", 0, error.start) + 1


def read_source(path: Path) -> str:
    """Read a page's source the way Sphinx does."""
    return path.read_text(encoding="utf-8-sig")


def show_path(path: str | os.PathLike[str]) -> str:
    """Name a file as a contributor would: from the working directory, if it is in there."""
    relative = os.path.relpath(path)
    return os.fspath(path) if relative.startswith(os.pardir) else Path(relative).as_posix()


def _mode_of(path: Path) -> int:
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)  # the only way to read it
    os.umask(mask)
    return 0o666 & ~mask
