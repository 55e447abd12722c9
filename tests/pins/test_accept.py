"""``--accept`` takes over what the last build printed, and loses nothing."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from fsdp_demo.pins.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pins.site import Site

SUMS = "docs/lessons/1-sums.md"
SUMS_PINS = "docs/_pins/lessons/1-sums.toml"
ERRORS = "docs/lessons/2-errors.md"
ERRORS_PINS = "docs/_pins/lessons/2-errors.toml"


def test_show_writes_nothing(changed: Site) -> None:
    before = changed.read(SUMS_PINS)
    shown = changed.pins()
    assert shown.status == 1
    assert "    -6\n    +7\n" in shown.finding("docs/lessons/1-sums.md:31: total:")
    assert "2 pending." in shown.printed
    assert changed.read(SUMS_PINS) == before


def test_accept_of_a_label_changes_that_pin_alone(changed: Site) -> None:
    """Comments, order and the other pins stay byte for byte."""
    before = changed.read(SUMS_PINS)
    accepted = changed.pins("--accept", "lessons/1-sums::total")
    assert (accepted.status, accepted.printed) == (0, f"{SUMS_PINS}: total\n")
    assert changed.read(SUMS_PINS) == before.replace("1.000000\n6\n", "1.000000\n7\n")


@pytest.mark.parametrize("targets", [[], ["lessons/1-sums"], [SUMS]])
def test_after_accept_the_build_finds_nothing(changed: Site, targets: list[str]) -> None:
    """All at once, a page by its name, or by its path: and no page is run again."""
    changed.break_kernel("tiny")
    assert changed.pins("--accept", *targets).status == 0
    assert changed.pins().status == 0
    outcome = changed.build()
    assert (outcome.status, outcome.printed) == (0, "")
    again = changed.pins("--accept", *targets)
    assert (again.status, again.printed[:18]) == (0, "Nothing to accept:")


def test_accept_keeps_a_pin_that_holds(changed: Site) -> None:
    """A pin with ``...`` is not replaced by the address that was printed."""
    changed.pins("--accept", "lessons/1-sums::total")
    changed.change(SUMS, '"a third is"', '"one third is"')
    changed.build()
    assert changed.pins("--accept").status == 0
    assert "one third is 0.33334 at ...\n" in changed.read(SUMS_PINS)


def test_accept_refuses_under_ci(changed: Site) -> None:
    before = changed.read(SUMS_PINS)
    refused = changed.pins("--accept", ci=True)
    assert refused.status == 2
    assert refused.printed.startswith("CI is set: ")
    assert len(refused.printed.splitlines()) == 1
    assert changed.read(SUMS_PINS) == before
    assert changed.pins(ci=True).status == 1  # to look is allowed


def test_accept_refuses_a_page_that_was_changed_since(changed: Site) -> None:
    """What was printed then isn't what the page prints now."""
    before = changed.read(SUMS_PINS)
    changed.change(SUMS, "total([1, 2, 4])", "total([1, 2, 5])")
    refused = changed.pins("--accept")
    assert refused.status == 2
    assert refused.printed == f"{SUMS} was changed since it was built: build first.\n"
    assert changed.read(SUMS_PINS) == before
    assert changed.pins().finding(f"{SUMS}: it was changed since it was built: build first.")


def test_accept_without_a_build_is_refused(right: Site) -> None:
    refused = right.pins("--accept", "--record", "build/nothing")
    assert refused.status == 2
    assert refused.printed == "build/nothing: no build was recorded. Run `nox -s docs`.\n"


def test_new_labels_go_where_the_page_has_them(right: Site) -> None:
    cell = "```{{code-cell}} python\n:pin: {0}\nprint('{0}')\n```\n\n"
    right.change(ERRORS, "# Errors\n\n", "# Errors\n\n" + cell.format("first"))
    right.change(
        ERRORS,
        "```{code-cell} python\n:pin: after\n",
        cell.format("between") + "```{code-cell} python\n:pin: after\n",
    )
    right.build()
    assert right.pins("--accept", "lessons/2-errors::between").status == 0
    assert right.pins("--accept", "lessons/2-errors::first").status == 0
    assert right.read(ERRORS_PINS) == (
        '[taken-on]\ntorch = "2.2.2"\nbuild = "cu121"\n\n[pins]\n'
        "first = '''\nfirst\n'''\n\n"
        "divided = '''\ndividing\nZeroDivisionError: division by zero\n'''\n\n"
        "between = '''\nbetween\n'''\n\n"
        "after = '''\nand on we go\n'''\n\n"
        "tells-itself = '''\nPlainError: it went wrong\n\nat the third line\n'''\n"
    )


def test_an_obsolete_pin_goes_with_its_page_or_by_name_only(right: Site) -> None:
    right.change(ERRORS, ":pin: after", ":pin: afterwards")
    right.build()
    assert right.pins("--accept", "lessons/2-errors::afterwards").status == 0
    assert "after = '''" in right.read(ERRORS_PINS)
    gone = right.pins("--accept", "lessons/2-errors::after")
    assert gone.printed == f"{ERRORS_PINS}: -after\n"
    assert "after = '''" not in right.read(ERRORS_PINS)


def test_the_pin_file_of_a_removed_page_goes_by_name_or_with_all(right: Site) -> None:
    right.path(ERRORS).unlink()
    right.change("docs/index.md", "lessons/2-errors\n", "")
    right.build()
    assert right.pins("--accept", "lessons/1-sums").status == 0
    assert right.path(ERRORS_PINS).exists()
    assert right.pins("--accept").printed == f"{ERRORS_PINS}: removed, its page is gone\n"
    assert not right.path(ERRORS_PINS).exists()


@pytest.mark.parametrize("record", ["", "{}"], ids=["no record", "a broken record"])
def test_a_page_that_the_last_build_did_not_read_keeps_its_pins(right: Site, record: str) -> None:
    """After a change of branch a page can look as if it were gone."""
    path = right.path("build/pins/lessons/2-errors.json")
    path.unlink()
    if record:
        path.write_text(record, encoding="utf-8")
    refused = right.pins("--accept")
    assert refused.status == 2
    assert refused.printed.endswith(": build first.\n")
    assert len(refused.printed.splitlines()) == 1
    assert right.path(ERRORS_PINS).exists()
    assert right.pins().status == 1


def test_a_page_that_lost_its_front_matter_keeps_its_pins(right: Site) -> None:
    """Its cells don't run any more: that must not cost it its pins."""
    front_matter = "---\nfile_format: mystnb\nkernelspec:\n  name: tiny\n---\n"
    right.change(ERRORS, front_matter, "")
    outcome = right.build()
    assert outcome.finding(f"{ERRORS}:4: WARNING: MyST-NB doesn't run this code cell.")
    refused = right.pins("--accept")
    assert refused.status == 2
    assert refused.printed.startswith(f"{ERRORS} has no code cell: ")
    assert right.path(ERRORS_PINS).exists()


def test_first_accept_makes_the_pin_file(right: Site) -> None:
    right.path(ERRORS_PINS).unlink()
    right.build()
    assert right.pins("--accept").status == 0
    assert right.read(ERRORS_PINS) == (
        "# What docs/lessons/2-errors.md printed when it was last reviewed.\n"
        "# `nox -s pins` shows what differs, `nox -s pins -- --accept` takes it over.\n"
        '[taken-on]\ntorch = "2.2.2"\nbuild = "cu121"\n\n[pins]\n'
        "divided = '''\ndividing\nZeroDivisionError: division by zero\n'''\n\n"
        "after = '''\nand on we go\n'''\n\n"
        "tells-itself = '''\nPlainError: it went wrong\n\nat the third line\n'''\n"
    )


def test_another_build_has_a_value_of_its_own(right: Site) -> None:
    """Per-build pins hold; a shared one that differs is split by ``--by-build``."""
    right.make_kernel("tiny", "2.2.2", "cpu")
    right.change(ERRORS, 'print("and on we go")', 'import os\n\nprint(os.environ["TINY_BUILD"])')
    outcome = right.build("-E", "-j", "2")
    found = outcome.finding(f"{ERRORS}:16: WARNING: after: The cell printed something else")
    assert "add --by-build if the output rightly depends on it" in found
    assert outcome.printed.count("[pins.") == 1
    assert right.pins("--accept", "lessons/2-errors::after", "--by-build").status == 0
    text = right.read(ERRORS_PINS)
    assert "after.cu121 = '''\nand on we go\n'''\nafter.cpu = '''\ncpu\n'''\n" in text
    assert 'build = "cu121"' in text  # all the others were taken on that one
    assert right.build().status == 0
    right.make_kernel("tiny", "2.2.2", "cu121")
    right.change(ERRORS, "# Errors", "# Errors again")
    found = right.build().finding(f"{ERRORS}:16: WARNING: after: The cell printed something")
    assert "    -and on we go\n    +cu121\n" in found
    assert right.pins("--accept", "lessons/2-errors").status == 0
    assert "after.cu121 = '''\ncu121\n'''\nafter.cpu = '''\ncpu\n'''" in right.read(ERRORS_PINS)


def test_another_torch_is_accepted_by_the_page_only(right: Site) -> None:
    right.make_kernel("tiny", "2.3.0", "cu121")
    right.change(ERRORS, "# Errors", "# Errors again")
    right.build()
    refused = right.pins("--accept", "lessons/2-errors::after")
    assert refused.status == 2
    assert refused.printed == (
        f"{ERRORS_PINS} was taken on torch 2.2.2, the build ran on 2.3.0:"
        " accept the whole page, lessons/2-errors\n"
    )
    before = right.read(ERRORS_PINS)
    assert right.pins("--accept", "lessons/2-errors").printed == f"{ERRORS_PINS}: taken-on\n"
    assert right.read(ERRORS_PINS) == before.replace('torch = "2.2.2"', 'torch = "2.3.0"')


def test_by_build_alone_is_a_mistake(right: Site) -> None:
    assert right.pins("--by-build").status == 2


def test_a_write_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o640)
    write_atomically(path, "new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
