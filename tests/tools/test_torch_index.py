"""The CPU index is used when it answers, and never waited for."""

from __future__ import annotations

import platform
import socket
from typing import TYPE_CHECKING

import pytest

from tools import torch_index

if TYPE_CHECKING:
    from tests.tools.conftest import Indexes


def test_an_index_that_serves_torch_answers(indexes: Indexes) -> None:
    assert torch_index.index_answers(indexes.cpu_index)
    assert torch_index.index_answers(f"{indexes.cpu_index}/")


def test_an_index_that_refuses_does_not_answer() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert not torch_index.index_answers(f"http://127.0.0.1:{unused.getsockname()[1]}")


def test_an_index_that_is_silent_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert not torch_index.index_answers(url, within_s=0.5)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (("Linux", "x86_64"), torch_index.CPU_INDEX),
        (("Linux", "aarch64"), None),
        (("Darwin", "arm64"), None),
    ],
)
def test_only_x86_64_linux_needs_the_cpu_index(
    machine: tuple[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(torch_index.VARIABLE, raising=False)
    monkeypatch.setattr(platform, "system", lambda: machine[0])
    monkeypatch.setattr(platform, "machine", lambda: machine[1])
    monkeypatch.setattr(torch_index, "index_answers", lambda _: True)
    assert torch_index.choose_cpu_index() == expected


def test_none_asks_for_the_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(torch_index.VARIABLE, "none")
    monkeypatch.setattr(torch_index, "index_answers", lambda _: pytest.fail("it was asked"))
    assert torch_index.choose_cpu_index() is None
