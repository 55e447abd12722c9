"""The allow-list is read, and a broken one is one clear line."""

from pathlib import Path

import pytest

from fsdp_demo.prose.allowed import AllowListError, read_allow_list


def test_a_page_may_say_its_own_phrases_and_everybodys(tmp_path: Path) -> None:
    path = tmp_path / "numbers.toml"
    path.write_text('everywhere = ["rank #"]\n\n[pages]\n"lessons/1" = ["4 × 4"]\n')
    allowed = read_allow_list(path)
    assert allowed.phrases("lessons/1") == ("rank #", "4 × 4")
    assert allowed.phrases("lessons/2") == ("rank #",)
    assert allowed.find_line("rank #") == 1
    assert allowed.find_line("4 × 4", "lessons/1") == 4


def test_a_missing_list_allows_nothing(tmp_path: Path) -> None:
    assert read_allow_list(tmp_path / "none.toml").phrases("any") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('everywhere = [\n"x"\nz', r"not TOML .*at line 3"),
        ('everywere = ["x"]', "unknown key 'everywere'"),
        ("everywhere = 3", "`everywhere` is no list of phrases"),
        ("pages = 3", "`pages` is no table of pages"),
        ('[pages]\nlessons = [""]', "`lessons` is no list of phrases"),
    ],
)
def test_a_broken_list_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "numbers.toml"
    path.write_text(text)
    with pytest.raises(AllowListError, match=message):
        read_allow_list(path)
