"""What is built is a copy, and each rebuild comes after one real edit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fsdp_demo.prose.numbers import find_unallowed
from tools.bench.builds import SENTENCE, add_comment, add_sentence, copy_checkout, read_world
from tools.bench.processes import ROOT, BenchFault

LESSON = ROOT / "docs" / "lessons" / "5-padding.md"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return Path(shutil.copy(LESSON, tmp_path))


def test_the_copy_holds_the_site_and_nothing_that_was_made(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    for name in ("conf.py", "docs/index.md", "docs/lessons/5-padding.md", "tools/progress.py"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()
    assert not (tmp_path / ".envs").exists()
    assert not (tmp_path / "build").exists()


def test_a_sentence_is_added_once(page: Path) -> None:
    before = page.read_text()
    add_sentence(page)
    assert page.read_text() == before + SENTENCE
    assert not list(find_unallowed(SENTENCE, ()))  # a number from no run would fail the rebuild


def test_a_comment_is_added_inside_the_first_cell(page: Path) -> None:
    before = page.read_text()
    add_comment(page)
    assert page.read_text() == before.replace(
        "describe_setting(WORLD)\n```\n", "describe_setting(WORLD)\n# one line more\n```\n", 1
    )


def test_a_page_without_a_cell_has_none_to_edit(tmp_path: Path) -> None:
    page = tmp_path / "prose.md"
    page.write_text("# Prose\n")
    with pytest.raises(BenchFault, match=r"prose.md has no code cell"):
        add_comment(page)
    with pytest.raises(BenchFault, match=r"prose.md states no WORLD"):
        read_world(page)


def test_a_lesson_states_its_world() -> None:
    assert read_world(LESSON) == 4
