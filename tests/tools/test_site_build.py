"""A build starts from empty folders, or does not start."""

from pathlib import Path

import pytest

from tools.site_build import make_empty


def test_what_is_there_goes_and_what_is_not_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "build" / "html"
    for _ in range(2):
        make_empty(folder)
        assert list(folder.iterdir()) == []
        (folder / "of-the-build-before.html").touch()


def test_a_file_in_its_place_stays_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("somebody's")
    with pytest.raises(OSError, match="build"):
        make_empty(tmp_path / "build" / "html")
    assert (tmp_path / "build").read_text() == "somebody's"
