"""A real page whose program nothing compares fails the build, and a table lists all comparisons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.pins.site import Outcome, Site

if TYPE_CHECKING:
    from pathlib import Path

NOT_COMPARED = "No comparison with the plain model runs this call of FSDP."
ADVICE = (
    "    Run it by `hold_to_plain`, in a cell of this page,"
    " or write `% not compared: why` in the line above the cell. [pins.not-compared]"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Outcome]:
    """Build the site with two processes, its pins accepted."""
    site = Site.copy("compared", tmp_path_factory.mktemp("compared"))
    site.change("conf.py", '"fsdp_demo.pins"', '"fsdp_demo.comparisons"')
    path: Path = site.path("conf.py")
    path.write_text(path.read_text() + 'comparisons_required = ["lessons/*"]\n')
    site.build("-j", "2")
    assert site.pins("--accept").status == 0
    return site, site.build("-E", "-j", "2")


@pytest.mark.parametrize(
    "line", [pytest.param(45, id="beside a magic"), *(pytest.param(n, id="") for n in (57, 58))]
)
def test_a_call_that_no_comparison_runs_fails_the_build_at_its_line(
    built: tuple[Site, Outcome], line: int
) -> None:
    """In a function, in a script that a cell writes, and under another name."""
    finding = built[1].finding(f"docs/lessons/2-left-out.md:{line}: WARNING: {NOT_COMPARED}")
    assert finding.splitlines()[1] == ADVICE


def test_a_class_that_is_handed_on_is_found(built: tuple[Site, Outcome]) -> None:
    """Nobody could say which call of the page it is that runs."""
    start = f"docs/lessons/4-twice.md:41: WARNING: {NOT_COMPARED}"
    assert "It hands the class on: call it in a function." in built[1].finding(start)


def test_a_lesson_without_a_comparison_fails_the_build(built: tuple[Site, Outcome]) -> None:
    start = "docs/lessons/3-none.md:1: WARNING: The lesson compares no program"
    assert "Add a cell that calls `fsdp_demo.equality.hold_to_plain`." in built[1].finding(start)


def test_two_programs_of_a_page_have_two_names(built: tuple[Site, Outcome]) -> None:
    start = "docs/lessons/4-twice.md:37: WARNING: compared: Another comparison of the page has"
    assert "`one` [pins.compared-twice]" in built[1].finding(start)


def test_nothing_else_is_found_and_a_second_build_finds_it_again(
    built: tuple[Site, Outcome],
) -> None:
    site, outcome = built
    assert outcome.status == 1
    assert outcome.printed.count("WARNING") == 6
    assert site.build().printed == outcome.printed


def test_the_table_has_a_row_for_each_comparison(built: tuple[Site, Outcome]) -> None:
    html = built[0].read("build/html/index.html")
    table = html[html.index("<table") : html.index("</table>")]
    rows = [
        [
            re.sub(r"<[^>]+>", "", cell).strip()
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        ]
        for row in table.split("<tr")[1:]
    ]
    assert rows == [
        ["program", "outputs", "gradients"],
        ["All is compared"],
        ["one &lt;program&gt;, 2 ranks", "=", "2.5e-01"],
        ["another program, 2 ranks", "=", "="],
        ["Three calls are left out"],
        ["one, 2 ranks", "=", "="],
        ["One name for two programs"],
        ["one, 2 ranks", "=", "="],
        ["one, 2 ranks", "=", "="],
        ["two, 2 ranks", "=", "="],
    ]
    assert 'href="lessons/1-right.html">All is compared</a>' in table


def test_a_comparison_shows_nothing_on_its_own_page(built: tuple[Site, Outcome]) -> None:
    assert "gt; is compared" not in built[0].read("build/html/lessons/1-right.html")


def test_the_table_follows_a_page_that_changes(built: tuple[Site, Outcome]) -> None:
    """Though the page of the table itself is not read again."""
    site, _ = built
    site.change("docs/lessons/1-right.md", '"another program"', '"a new program"')
    site.build()
    assert "a new program" in site.read("build/html/index.html")
