"""A lock names every version; what is installed is held against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from tools.locks import find_unlocked, read_lock

if TYPE_CHECKING:
    from pathlib import Path


def test_reads_names_versions_and_markers(tmp_path: Path) -> None:
    lock = tmp_path / "site.txt"
    lock.write_text(
        "# made by a tool\n"
        "Jinja2==3.1.6\n"
        "numpy==1.26.4 ; python_full_version < '3.12'\n"
        "numpy==2.4.6 ; python_full_version >= '3.12'\n"
    )
    assert read_lock(lock) == {
        "jinja2": {Version("3.1.6")},
        "numpy": {Version("1.26.4"), Version("2.4.6")},
    }


def test_finds_what_is_not_pinned_or_at_another_version() -> None:
    pins = {"torch": {Version("2.2.2")}, "numpy": {Version("1.26.4")}}
    installed = {
        "torch": Version("2.2.2+cpu"),  # a build of the pinned version
        "numpy": Version("2.0.0"),
        "left-pad": Version("1.0"),
        "fsdp-demo": Version("0.1.0"),  # this project
    }
    assert find_unlocked(installed, pins) == ["left-pad 1.0", "numpy 2.0.0"]
