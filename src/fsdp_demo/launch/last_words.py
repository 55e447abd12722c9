"""A rank that ends itself leaves its traceback: `os._exit` and a signal to itself would leave none.

Both are heard without touching what they do: a signal through Python's audit events, `os._exit`,
for which there is no event, through a function in its place.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from typing import Any, NoReturn


def leave_last_words(trace: int) -> None:
    """Have a marker and a dump of the thread written to `trace` when this process ends itself."""
    pid = os.getpid()
    really_exit = os._exit

    def speak(words: str) -> None:
        os.write(trace, f"@{words} at {time.monotonic()}\n".encode())
        faulthandler.dump_traceback(trace, all_threads=False)

    def exit_with_words(status: int) -> NoReturn:
        if os.getpid() == pid:  # a forked child of the worker's may leave as it likes
            speak(f"exit {int(status) & 0xFF}")
        really_exit(status)

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event == "os.kill" and args[0] == pid and args[1] and os.getpid() == pid:
            speak(f"kill {int(args[1])}")

    os._exit = exit_with_words  # its public name
    sys.addaudithook(hear)
