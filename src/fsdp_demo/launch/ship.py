"""How a worker travels from the caller's process to the ranks.

`pickle` refers to a function by its name, which a rank cannot look up when the function lives in a
notebook cell or a script; cloudpickle sends the function itself. Two things it loses are put back
here: the file name of a function's code (cloudpickle writes `<dynamic-code>`) and the cell's lines,
which exist in no file. Without them a traceback would not show the reader's own lines.
"""

from __future__ import annotations

import io
import linecache
import marshal
import types
from collections import ChainMap
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle  # type: ignore[import-untyped]  # ships no types


def reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    """Pickle a code object whole, file name and all; both sides run the same interpreter."""
    return marshal.loads, (marshal.dumps(code),)


class CodeKeepingPickler(cloudpickle.Pickler):  # type: ignore[misc]  # likewise
    """cloudpickle's pickler, with code objects that keep their file name."""

    dispatch_table: ClassVar[Any] = ChainMap(
        {types.CodeType: reduce_code}, cloudpickle.Pickler.dispatch_table
    )


def pickle_work(worker: Any, args: tuple[Any, ...]) -> bytes:  # noqa: ANN401  # any worker, any arguments
    """Return `worker` and `args` as bytes for `rank.load_work`; raises whatever pickling raises."""
    buffer = io.BytesIO()
    CodeKeepingPickler(buffer).dump((worker, args))
    return buffer.getvalue()


def lines_without_file() -> dict[str, list[str]]:
    """Return the lines of each interactive cell, by the file name in its code."""
    return {
        name: list(entry[2])
        for name, entry in linecache.cache.items()
        if len(entry) > 2 and entry[1] is None and not Path(name).exists()  # noqa: PLR2004  # not a lazy entry
    }
