"""The pin file of a page, as it is read.

Labels stand in page order in one table.  An output that rightly depends on the build has one
value for each, as dotted keys, which keep that order::

    [taken-on]
    torch = "2.2.2"
    build = "cu121"

    [pins]
    shard-of-layer0 = '''
    rank 0: [-0.0037434101, …]
    '''

    setting.cpu = '''
    torch 2.2.2 (cpu build), gloo on CPU, world 2
    '''
    setting.cu121 = '''
    torch 2.2.2 (cu121 build), gloo on CPU, world 2
    '''
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsdp_demo.pins.cells import Setting
from fsdp_demo.pins.files import find_bad_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SUFFIX = ".toml"
_CONFLICT = re.compile(r"<{7} ", re.MULTILINE)
_QUOTES = re.compile(r"'''|\"\"\"")


class BrokenPinFileError(Exception):
    """A pin file that can't be read: what is wrong with it, and its line."""

    def __init__(self, message: str, line: int = 1) -> None:
        """Keep the line apart: a report puts it behind the file's name."""
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class PinFile:
    """The pins of one page."""

    taken_on: Setting
    pins: Mapping[str, str | Mapping[str, str]]
    """For each label, in the file's order, the pin or one pin for each build."""
    text: str
    """The file's own text."""

    def line_of(self, key: str) -> int:
        """Find the line of a key, such as a label; the first line where it stands nowhere."""
        return _find_line(self.text, key)


def parse_pin_file(text: str) -> PinFile:
    """Read a pin file's text.

    Raises:
        BrokenPinFileError: The text is no TOML, or not of the shape above.
    """
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise BrokenPinFileError("A merge left both sides in it: keep one of them.", line)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error))
        if found is None:  # "(at end of document)"
            raise BrokenPinFileError(f"{error}", len(text.splitlines()) or 1) from None
        raise BrokenPinFileError(found[1], int(found[2])) from None
    taken_on = content.pop("taken-on", None)
    match taken_on:
        case {"torch": str(torch), "build": str(build)}:
            setting = Setting(torch, build)
        case _:
            line = _find_line(text, "taken-on")
            raise BrokenPinFileError("[taken-on] must name torch and build.", line)
    pins = content.pop("pins", None)
    if not isinstance(pins, dict):
        raise BrokenPinFileError("The table [pins] is not there.", _find_line(text, "pins"))
    if content:
        key = next(iter(content))
        raise BrokenPinFileError(f"`{key}` has no meaning here.", _find_line(text, key))
    for label, value in pins.items():
        values = value.values() if isinstance(value, dict) else [value]
        if not values or not all(isinstance(one, str) for one in values):
            message = f"The pin `{label}` must be a string, or one string for each build."
            raise BrokenPinFileError(message, _find_line(text, label))
    return PinFile(setting, pins, text)


def read_pin_file(path: Path) -> PinFile | None:
    """Read a page's pin file, or return None where there is none.

    Raises:
        BrokenPinFileError: It can't be read.
    """
    try:
        return parse_pin_file(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise BrokenPinFileError("It is not UTF-8.", find_bad_line(error)) from None


def _find_line(text: str, key: str) -> int:
    """Find the line that a key or a table's header begins, but not inside a pin's own text."""
    start = re.compile(rf"\s*\[*[\"']?{re.escape(key)}[\"']?\s*([.=\]]|$)")
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is None and start.match(line):
            return number
        for quotes in _QUOTES.findall(line):
            inside = quotes if inside is None else None if inside == quotes else inside
    return 1
