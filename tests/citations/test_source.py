"""Objects are found in installed files, and quoted words in the objects."""

from pathlib import Path

import pytest

from fsdp_demo.citations.quotation import find_words
from fsdp_demo.citations.source import ObjectNotFoundError, SourceObject, find_object

MODULE = '''\
import os

if os.name:
    @property
    def guarded():
        # one sentence, broken
        # over two comment lines
        return 1


class Outer:
    """It cannot fail,
    says the docstring."""

    def inner(self):
        return "inner words"


def other():
    return "other words"
'''


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    package = tmp_path / "pkg" / "sub"
    package.mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").write_text("def top(): pass\n")
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(MODULE)
    return tmp_path


def test_a_class_is_found_with_its_own_lines_only(site_packages: Path) -> None:
    found = find_object(site_packages, "pkg.sub.module.Outer")
    assert (found.path, found.first_line) == ("pkg/sub/module.py", 11)
    assert found.lines[0] == "class Outer:"
    assert found.lines[-1].strip() == 'return "inner words"'


def test_a_method_is_found_inside_its_class(site_packages: Path) -> None:
    found = find_object(site_packages, "pkg.sub.module.Outer.inner")
    assert found.first_line == 15


def test_a_function_below_an_if_is_found_with_its_decorator(site_packages: Path) -> None:
    found = find_object(site_packages, "pkg.sub.module.guarded")
    assert (found.first_line, found.lines[0].strip()) == (4, "@property")


def test_a_package_and_what_it_defines_are_found(site_packages: Path) -> None:
    assert find_object(site_packages, "pkg").path == "pkg/__init__.py"
    assert find_object(site_packages, "pkg.top").first_line == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.Thing", "no module 'nowhere' is installed"),
        ("pkg.sub.module.Missing", "pkg/sub/module.py defines no Missing"),
        ("pkg.sub.module.Outer.missing", "pkg/sub/module.py defines no Outer.missing"),
    ],
)
def test_a_name_that_leads_nowhere_says_how_far_it_got(
    site_packages: Path, name: str, message: str
) -> None:
    with pytest.raises(ObjectNotFoundError, match=message):
        find_object(site_packages, name)


def quote(site_packages: Path, name: str, words: str) -> int | None:
    return find_words(find_object(site_packages, name), words)


def test_words_are_found_across_lines_and_say_their_line(site_packages: Path) -> None:
    assert quote(site_packages, "pkg.sub.module.Outer", "cannot fail, says  the\ndocstring") == 12


def test_words_of_a_comment_are_found_without_its_hashes(site_packages: Path) -> None:
    assert quote(site_packages, "pkg.sub.module.guarded", "broken over two comment lines") == 6


@pytest.mark.parametrize(
    "words",
    [
        "It can fail",  # a changed word
        "not fail",  # cut out of a longer word
        "the docstr",  # likewise, at the end
        "other words",  # in the file, but of another object
        "IT CANNOT FAIL",  # letters count
        "",
    ],
)
def test_words_that_the_object_does_not_say_are_not_found(site_packages: Path, words: str) -> None:
    assert quote(site_packages, "pkg.sub.module.Outer", words) is None


def test_a_quotation_may_start_and_end_with_punctuation() -> None:
    source = SourceObject("x", "x.py", 7, ("``a`` is (b).",))
    assert find_words(source, "``a`` is (b).") == 7
