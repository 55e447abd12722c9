"""What faulthandler wrote: where a rank that can't speak for itself is, or was.

faulthandler writes from a signal handler, so it answers from inside C++ and when the rank has
crashed. Beside its dumps the rank writes markers, lines that begin with ``@``: ``@main`` and the
main thread's number, ``@step`` and what the launcher is doing, ``@exit`` and ``@kill`` with the
moment, just before the rank ends itself.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from fsdp_demo.launch.frames import Frame, is_distributed, is_own

if TYPE_CHECKING:
    from collections.abc import Callable

THREAD = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+)")
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)$')
# The signal that asks a rank where it is. Of the real-time ones where there are any: a worker may
# have a use of its own for SIGUSR1, as training scripts on a cluster do.
ASK = getattr(signal, "SIGRTMAX", signal.SIGUSR1)
# A thread whose innermost frame is here waits for work or for another thread.
IDLE_MODULES = (
    "threading.py",
    "queue.py",
    "selectors.py",
    "thread.py",
    "process.py",
    "connection.py",
)
# Called from C, a wait leaves no frame of its own: the line that calls it is the innermost.
WAIT_CALL = re.compile(r"\.(wait|synchronize|wait_tensor)\(")


@dataclass(slots=True)
class Trace:
    """One part of a trace file."""

    main: str = ""
    step: str = ""
    event: str = ""  # "exit 3", "kill 9" or "" when the rank did not end itself
    event_at: float = math.inf  # by `time.monotonic`
    threads: dict[str, list[Frame]] = field(default_factory=dict)  # outermost first

    @property
    def frames(self) -> list[Frame]:
        """The main thread's frames, outermost first; another's when it isn't there."""
        if self.main in self.threads or not self.threads:
            return self.threads.get(self.main, [])
        return next(iter(self.threads.values()))


def parse_trace(text: str) -> Trace:
    """Read markers and dumps; a later dump of a thread replaces an earlier one."""
    trace = Trace()
    frames: list[Frame] = []
    for line in text.splitlines():
        thread = THREAD.match(line)
        frame = FRAME.match(line)
        if line.startswith("@main "):
            trace.main = line.removeprefix("@main ")
        elif line.startswith("@step "):
            trace.step = line.removeprefix("@step ")
        elif line.startswith(("@exit ", "@kill ")):
            trace.event, _, moment = line.removeprefix("@").partition(" at ")
            trace.event_at = float(moment)
        elif line.startswith("Stack ("):  # asked for by the thread itself
            frames = trace.threads[trace.main] = []
        elif thread:
            frames = trace.threads[thread[1]] = []
        elif frame:
            lineno = 0 if frame["line"] == "???" else int(frame["line"])
            frames.insert(0, Frame(frame["file"], lineno, frame["name"]))
    return trace


def read_trace(file: IO[bytes], start: int = 0) -> Trace:
    """Read a trace file from byte `start` on; markers are read from its beginning."""
    fd = file.fileno()
    text = os.pread(fd, os.fstat(fd).st_size, 0)
    trace = parse_trace(text[start:].decode("utf-8", "replace"))
    if start:
        before = parse_trace(text[:start].decode("utf-8", "replace"))
        trace.main, trace.step = before.main, trace.step or before.step
    return trace


def read_steps(file: IO[bytes]) -> list[str]:
    """Return the steps that the rank has noted, in order."""
    fd = file.fileno()
    text = os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.startswith("@step ")]
    return [line.removeprefix("@step ") for line in lines]


def wait_for_dumps(files: list[tuple[IO[bytes], int]], limit_s: float) -> None:
    """Wait until each file holds a whole dump beyond the size given with it.

    Not longer than `limit_s` seconds, and then without a complaint.

    A dump is whole when it ends with the outermost frame of the main thread, which comes last, or
    with the dots that stand for the frames beyond the first hundred.
    """

    def is_whole(file: IO[bytes], start: int) -> bool:
        size = os.fstat(file.fileno()).st_size
        tail = os.pread(file.fileno(), 64, max(start, size - 64))
        return tail.endswith((b" in <module>\n", b"  ...\n"))

    poll(lambda: all(is_whole(*file) for file in files), limit_s)


def poll(is_done: Callable[[], bool], limit_s: float, step_s: float = 0.01) -> bool:
    """Return whether `is_done` came true within `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(step_s)
    return True


def is_waiting(trace: Trace, source_line: Callable[[Frame], str]) -> bool:
    """Return whether a rank waits in a collective, and no thread of it does anything else.

    Args:
        trace: a dump of all threads.
        source_line: gives a frame's source line.
    """
    if not trace.frames or not waits(trace.frames, source_line):
        return False
    return all(
        waits(frames, source_line) or frames[-1].filename.endswith(IDLE_MODULES)
        for frames in trace.threads.values()
        if frames
    )


def waits(frames: list[Frame], source_line: Callable[[Frame], str]) -> bool:
    """Return whether one thread's innermost frame waits in `torch.distributed`."""
    inner = [
        frame
        for frame in frames
        if not frame.filename.endswith(("torch/_ops.py", "launch/record.py"))
    ]
    if not inner:
        return False
    innermost = inner[-1]
    if is_distributed(innermost.filename):
        return True
    return is_own(innermost.filename) and WAIT_CALL.search(source_line(innermost)) is not None
