"""A Python counts only if it was seen to run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tools import interpreter
from tools.interpreter import Interpreter, NoInterpreterError, ask_interpreter, find_interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Let each test look anew."""
    find_interpreter.cache_clear()
    yield
    find_interpreter.cache_clear()


def write_program(file: Path, text: str) -> str:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_takes_the_python_that_runs_this() -> None:
    found = find_interpreter()
    assert found == Interpreter(sys.executable, f"{sys.version_info[0]}.{sys.version_info[1]}")


def test_a_shim_that_only_prints_an_error_does_not_count(tmp_path: Path) -> None:
    shim = write_program(
        tmp_path / "python3.12", "echo 'pyenv: python3.12: command not found'; exit 127"
    )
    assert ask_interpreter(shim) is None


def test_another_implementation_does_not_count(tmp_path: Path) -> None:
    other = write_program(tmp_path / "python3.11", "echo pypy 3.11 /usr/bin/pypy3.11")
    assert ask_interpreter(other) is None


def test_a_name_that_is_not_there_does_not_count() -> None:
    assert ask_interpreter("python3.11-that-is-not-there") is None


def test_passes_over_a_shim_to_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "executable", write_program(tmp_path / "own", "echo cpython 3.13 /own")
    )
    write_program(tmp_path / "python3.11", "exit 127")
    write_program(tmp_path / "python3.12", "echo cpython 3.12 /usr/bin/python3.12")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_interpreter() == Interpreter("/usr/bin/python3.12", "3.12")


def test_says_in_one_line_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "executable", write_program(tmp_path / "own", "echo cpython 3.13 /own")
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoInterpreterError) as caught:
        find_interpreter()
    message = str(caught.value)
    assert message.startswith(f"Python {' or '.join(interpreter.SUPPORTED)} is needed")
    assert "\n" not in message
