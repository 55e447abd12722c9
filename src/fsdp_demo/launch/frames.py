"""Frames of a rank's traceback: which are the reader's own, and how they are shown.

A traceback out of FSDP's backward has thirty frames of torch and one of the page. Shown are those
that the reader wrote. Their places are named without anything that differs between machines or
runs: a notebook cell by its number, a file by its path below the folder it was imported from.
"""

from __future__ import annotations

import linecache
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINES_BEFORE = 2
LINES_AFTER = 1
FIRST_SHOWN, LAST_SHOWN = 3, 5  # of a long recursion

PACKAGE = Path(__file__).parent.parent
# A rank's oldest frames: the launcher's, and in a build those of the process it was forked from.
BELOW_WORKER = tuple(str(PACKAGE / name) + os.sep for name in ("launch", "warm"))
STDLIB = str(Path(os.__file__).parent) + os.sep


class Frame(NamedTuple):
    """One frame of a traceback."""

    filename: str
    lineno: int
    name: str


@lru_cache(maxsize=4096)
def is_own(filename: str) -> bool:
    """Return whether code in this file is the reader's own: no library, no part of the launcher."""
    if filename.startswith("<"):
        return filename == "<stdin>"
    if filename.startswith(BELOW_WORKER):
        return False
    if "site-packages" in filename or "dist-packages" in filename:
        return False
    return not filename.startswith(STDLIB)


def own_frames(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return the reader's own frames, in the order given."""
    return tuple(frame for frame in frames if is_own(frame.filename))


def is_torch(filename: str) -> bool:
    """Return whether a file belongs to torch."""
    return f"{os.sep}torch{os.sep}" in filename and not is_own(filename)


def is_distributed(filename: str) -> bool:
    """Return whether a file belongs to `torch.distributed`."""
    return f"{os.sep}torch{os.sep}distributed{os.sep}" in filename


def collective_in(frames: Sequence[Frame]) -> str | None:
    """Return the innermost public function of `torch.distributed` among the frames.

    Args:
        frames: outermost first.
    """
    for frame in reversed(frames):
        if frame.filename.endswith("distributed_c10d.py") and not frame.name.startswith("_"):
            return frame.name
    return None


def name_cell(filename: str) -> str | None:
    """Return "Cell In[3]" for the code of a notebook cell, None for other code."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    named = shell.compile.format_code_name(filename)
    return None if named is None else " ".join(named)


def name_file(filename: str) -> str:
    """Return a file's path below the current folder or the folder it was imported from."""
    path = Path(filename)
    if not path.is_absolute():
        return filename
    roots = [Path.cwd(), *(Path(entry).absolute() for entry in sys.path if entry)]
    inside = [root for root in roots if path.is_relative_to(root)]
    if not inside:
        return path.name
    return path.relative_to(max(inside, key=lambda root: len(root.parts))).as_posix()


def name_place(frame: Frame) -> str:
    """Return where a frame is, as in "Cell In[3], line 7" or "train.py, line 7"."""
    return f"{name_cell(frame.filename) or name_file(frame.filename)}, line {frame.lineno}"


def show_frame(frame: Frame) -> str:
    """Return a frame's place and the lines around it, as IPython shows them."""
    function = "" if frame.name == "<module>" else f", in {frame.name}"
    shown = [f"{name_place(frame)}{function}"]
    for lineno in range(max(1, frame.lineno - LINES_BEFORE), frame.lineno + LINES_AFTER + 1):
        line = linecache.getline(frame.filename, lineno).rstrip()
        mark = "---->" if lineno == frame.lineno else "     "
        if line:
            shown.append(f"{mark} {lineno:>3} {line}")
    return "\n".join(shown)


def show_frames(frames: Sequence[Frame]) -> str:
    """Return the reader's own frames, outermost first; of a long recursion only its ends."""
    linecache.checkcache()
    left_out = len(frames) - FIRST_SHOWN - LAST_SHOWN
    if left_out <= 0:
        return "\n\n".join(show_frame(frame) for frame in frames)
    first, last = frames[:FIRST_SHOWN], frames[-LAST_SHOWN:]
    middle = f"… {left_out} more frames …"
    return "\n\n".join([*map(show_frame, first), middle, *map(show_frame, last)])
