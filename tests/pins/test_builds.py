"""A finding comes back on every build, however little that build reads or runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.pins.site import Site

TOTAL = "docs/lessons/1-sums.md:31: WARNING: total: The cell printed something else than its pin."
SUMS = "docs/lessons/1-sums.md"
SUMS_PINS = "docs/_pins/lessons/1-sums.toml"


def test_nothing_is_found_where_all_is_right(right: Site) -> None:
    shown = right.pins()
    assert (shown.status, shown.printed.splitlines()[0][:20]) == (0, "Nothing is pending: ")


@pytest.mark.parametrize("options", [(), ("-j", "2")], ids=["one process", "two processes"])
def test_drift_is_found_by_the_second_build_too(changed: Site, options: tuple[str, ...]) -> None:
    """The page is not run again: its kernel can't be started any more."""
    changed.break_kernel("tiny")
    outcome = changed.build(*options)
    assert outcome.status == 1
    assert "    -6\n    +7\n" in outcome.finding(TOTAL)


def test_drift_is_found_on_a_cache_hit(changed: Site) -> None:
    """From MyST-NB's cache, at the line where the cell stands now."""
    cached = ("-D", "nb_execution_mode=cache", "-E")
    assert changed.build(*cached).finding(TOTAL)
    changed.change(SUMS, "# Sums\n", "# Sums\n\nMore prose.\n")
    changed.break_kernel("tiny")
    outcome = changed.build(*cached)
    assert outcome.status == 1
    assert "    -6\n    +7\n" in outcome.finding(TOTAL.replace(":31:", ":33:"))


def test_a_cell_that_fails_is_found_on_every_build(right: Site) -> None:
    """In force and cache mode, on the first build and the second, once."""
    right.change(SUMS, "total([1, 2, 3])", "total([1, 2, None])")
    for mode in ("force", "force", "cache", "cache"):
        outcome = right.build("-D", f"nb_execution_mode={mode}")
        assert outcome.status == 1
        found = outcome.finding("docs/lessons/1-sums.md:31: WARNING: total: The cell raised")
        assert "TypeError: unsupported operand" in found
        assert "at docs/lessons/1-sums.md:35, then docs/lessons/1-sums.md:28" in found
        assert outcome.printed.count(": WARNING: ") == 1


def test_a_changed_pin_file_is_enough(right: Site) -> None:
    """A pin file is compared anew though its page isn't read again."""
    right.break_kernel("tiny")
    right.change(SUMS_PINS, "1.000000\n6\n", "1.000000\n5\n")
    outcome = right.build()
    assert outcome.status == 1
    assert "    -5\n    +6\n" in outcome.finding(TOTAL)


def test_a_page_that_is_read_again_takes_no_other_along(changed: Site) -> None:
    """One page drifted; another one is read again, and the first is still found."""
    changed.change("docs/lessons/2-errors.md", "# Errors", "# Other errors")
    outcome = changed.build("-j", "2")
    assert outcome.status == 1
    assert outcome.finding(TOTAL)


def test_an_expected_error_is_shown_without_this_machines_paths(right: Site) -> None:
    """The page shows what the pin holds: stdout, and the error's last line."""
    page = right.read("build/html/lessons/2-errors.html")
    assert "dividing" in page
    assert "ZeroDivisionError" in page
    assert "ipykernel" not in page
    assert "Traceback" not in page


def test_an_expected_error_that_chose_its_own_text_is_shown_and_pinned_whole(right: Site) -> None:
    assert "at the third line" in right.read("build/html/lessons/2-errors.html")
    right.change("docs/lessons/2-errors.md", "at the third", "at the fourth")
    found = right.build().finding("docs/lessons/2-errors.md:21: WARNING: tells-itself: The cell")
    assert "    -at the third line\n    +at the fourth line" in found


def test_records_follow_the_pages(right: Site) -> None:
    """A build writes what each page printed; the record of a removed page goes."""
    record = json.loads(right.read("build/pins/lessons/1-sums.json"))
    assert record["page"]["setting"] == {"torch": "2.2.2", "build": "cu121"}
    labels = [cell["options"].get("pin") for cell in record["page"]["cells"]]
    assert labels == ["setting", None, "total", "third"]
    assert record["page"]["cells"][2]["text"] == "the sum of 3 numbers:\n1.000000\n6\n"
    right.path("docs/lessons/2-errors.md").unlink()
    right.change("docs/index.md", "lessons/2-errors\n", "")
    outcome = right.build()
    assert outcome.finding("docs/_pins/lessons/2-errors.toml:1: WARNING: The pin file belongs to")
    assert not right.path("build/pins/lessons/2-errors.json").exists()


def test_a_lost_record_is_written_again(right: Site) -> None:
    right.path("build/pins/lessons/1-sums.json").unlink()
    assert right.build().status == 0
    assert right.path("build/pins/lessons/1-sums.json").exists()


def test_a_site_that_renders_otherwise_is_refused(right: Site) -> None:
    """Without the renderer no pin would be compared, and nobody would see it."""
    outcome = right.build("-D", "nb_render_plugin=default")
    assert outcome.status == 2
    assert 'fsdp_demo.pins needs nb_render_plugin = "pins" in conf.py' in outcome.printed
