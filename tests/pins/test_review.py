"""What no build can easily be brought to, on plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from myst_nb.core.config import (  # type: ignore[import-untyped]
    NbParserConfig,
    Section,
)

from fsdp_demo.pins.cells import Cell, CellError, Page, Setting, join_streams
from fsdp_demo.pins.declared import MYSTNB_OPTIONS, tolerance_of
from fsdp_demo.pins.findings import BLOCKING, PENDING, Finding, Kind
from fsdp_demo.pins.lines import DEFAULT_REL
from fsdp_demo.pins.pagelines import name_lines
from fsdp_demo.pins.ran import check_run
from fsdp_demo.pins.record import read_records, write_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pins.site import Outcome, Site

RANK_ERROR = CellError(
    "RankError",
    "rank 1 raised ValueError: no",
    """\
RankError: rank 1 raised ValueError: no

  File "/tmp/ipykernel_12/1577591539.py", line 2, in work
  Cell In[2], line 1, in <module>
  File "/env/torch/nn.py", line 7, in forward
ValueError: no""",
)


def _page(*cells: Cell, stopped: str | None = None) -> Page:
    return Page("x", "hash", "tiny", Setting("2.2.2", "cpu"), cells, stopped, 30)


def test_every_kind_has_a_fault_that_a_build_finds(faults: tuple[Site, Outcome]) -> None:
    """Only a run that is stopped by nothing known can't be had from a page.

    Comparisons have a site of their own.
    """
    elsewhere = {Kind.NO_COMPARISON, Kind.NOT_COMPARED, Kind.COMPARED_TWICE}
    unseen = {kind for kind in Kind if f"[pins.{kind.slug}]" not in faults[1].printed}
    assert unseen == {Kind.STOPPED} | elsewhere


def test_a_stopped_run_never_passes() -> None:
    """MyST-NB's warning of it is hushed, so it is reported though no cell explains it."""
    cell = Cell(7, 9, "1", {"pin": "one"}, count=1)
    found = list(check_run(_page(cell, stopped="CellExecutionError"), "docs/x.md"))
    assert found == [Finding(Kind.STOPPED, 1, "By CellExecutionError.")]
    assert Kind.STOPPED in BLOCKING


def test_kinds_are_either_accepted_or_mended() -> None:
    assert not PENDING & BLOCKING
    assert len({kind.slug for kind in Kind}) == len(Kind)


def test_a_ranks_error_is_shown_as_it_is_with_the_pages_lines() -> None:
    """Its own text, in which the cell's frames are named by the page."""
    first = Cell(3, 5, "def work(rank, world):\n    raise ValueError", {}, count=1)
    second = Cell(10, 12, "spawn(work, 2)", {"pin": "run"}, count=2, error=RANK_ERROR)
    (found,) = check_run(_page(first, second, stopped="CellExecutionError"), "docs/x.md")
    assert (found.kind, found.line) == (Kind.RAISED, 10)
    assert found.message.splitlines()[1:-1] == [
        "    RankError: rank 1 raised ValueError: no",
        "",
        "      docs/x.md:6, in work",
        "      docs/x.md:12, in <module>",
        '      File "/env/torch/nn.py", line 7, in forward',
        "    ValueError: no",
    ]


def test_frames_of_no_cell_stay() -> None:
    text = "Cell In[9], line 1\n/tmp/ipykernel_1/2.py, line 3"
    assert name_lines(_page(), "docs/x.md", text) == text


@pytest.mark.parametrize(
    ("value", "rel"),
    [(1.0e-3, 1e-3), ("1e-3", 1e-3), (0, 0.0), ("x", None), (True, None), (-1, None), (1, None)],
)
def test_a_tolerance_is_a_number_below_one(value: object, rel: float | None) -> None:
    """YAML takes ``1e-3`` for a string; it counts as the number that it looks like."""
    cell = Cell(1, 3, "", {"pin": "one", "rel": value}, count=1)
    assert tolerance_of(cell) == (DEFAULT_REL if rel is None else rel)


def test_cell_options_are_those_that_mystnb_reads() -> None:
    fields = NbParserConfig.get_fields()
    at_cells = [one for one in fields if Section.cell_lvl in one.metadata.get("sections", ())]
    assert {one.metadata.get("cell_key", one.name) for one in at_cells} == MYSTNB_OPTIONS


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The text exactly: CRLF, control characters, no final newline."""
    cell = Cell(1, 3, "x", {"pin": "one", "rel": 0.5}, 1, "a\r\n\x1b…", "careful", RANK_ERROR)
    page = _page(cell, Cell(5, 6, "y", {"tags": ["unpinned"]}, None))
    source = tmp_path / "docs" / "x.md"
    write_record(tmp_path / "pins", page, source)
    records = read_records(tmp_path / "pins")
    assert records["x"].page == page
    assert records["x"].path == source.resolve()
    assert records["x"].stale  # there is no such file


def test_a_record_that_cannot_be_read_is_stale(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"page": {}}', encoding="utf-8")
    (tmp_path / "y.json").write_text("{", encoding="utf-8")
    assert [record.stale for record in read_records(tmp_path).values()] == [True, True]


def test_pieces_of_a_stream_are_joined_to_the_letter() -> None:
    def piece(name: str, text: str) -> dict[str, str]:
        return {"output_type": "stream", "name": name, "text": text}

    value = {"output_type": "execute_result", "data": {"text/plain": "3"}}
    pieces = [piece("stdout", "  a\n"), piece("stdout", "  b"), piece("stderr", "c"), value]
    joined = join_streams([*pieces, piece("stdout", "d"), piece("stdout", "\n")])
    assert joined == [
        piece("stdout", "  a\n  b"),
        piece("stderr", "c"),
        value,
        piece("stdout", "d\n"),
    ]
