"""Figures say in words all that they draw, and draw the same bytes each time."""

import itertools
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fsdp_demo.draw import (
    Bar,
    Figure,
    Mark,
    ScaleRow,
    TreeRow,
    draw_bars,
    draw_line,
    draw_matrix,
    draw_mesh,
    draw_scale,
    draw_sequence,
    draw_timelines,
    draw_tree,
    find_owners,
)
from fsdp_demo.records import Event, Layout, MemoryEvent, ParameterSlice, Shard

SVG = "{http://www.w3.org/2000/svg}"


def event(kind: str, phase: str, unit: str, *whole: str) -> MemoryEvent:
    return MemoryEvent(kind, phase, unit, whole, 100 * len(whole), 0, 50, 0)  # type: ignore[arg-type]


STEP = [
    event("gather", "forward", "a", "a"),
    event("forward-start", "forward", "a", "a"),
    event("free", "forward", "a"),
    event("gather", "backward", "a", "a"),
    event("backward-start", "backward", "a", "a"),
    event("free", "backward", "a"),
    event("reduced", "backward", "a"),
]

LANES = ["your kernel", "rank 0", "rank 1"]
RUN = [
    Event(("your kernel",), "begin", "rank 1"),
    Event(("rank 0", "rank 1"), "summing", is_joint=True),
    Event(("rank 1",), "done", "your kernel"),
]

ROWS = [
    ScaleRow("warm", (Mark("2 ranks", 0.1, 0.08, 0.3), Mark("4 ranks", 0.2, 0.15, 0.2))),
    ScaleRow("cold", (Mark("2 ranks", 3.0, 2.9, 3.5), Mark("4 ranks", 123.4, 120, 130))),
]

FIGURES = {
    "matrix": draw_matrix("weight", [[0, 0, 1], [1, 1, 1]]),
    "line": draw_line([("weight", 6), ("bias", 1)], 2, 4),
    "mesh": draw_mesh("two nodes", [[0, 1], [2, 3]], {(0, 1): ["3 gathers"], (0, 2): ["1 sum"]}),
    "tree": draw_tree(
        "units <and> modules",
        [
            TreeRow("root", 0, "Net", ()),
            TreeRow("0", 1, "Block", ("w",)),
            TreeRow("0.a", 2, "Linear", None),
        ],
    ),
    "scale": draw_scale("two ways", ROWS),
    "timeline": draw_timelines("a step", {"FULL_SHARD": STEP}),
    "bars": draw_bars(
        "bytes <of> all",
        {"one": [Bar("8", (1.0, 3.0), "1 + 3")], "other": [Bar("64", (0, 0.001), "0 + 0.001")]},
        ["at rest", "whole"],
    ),
    "sequence": draw_sequence("a run", LANES, RUN),
}


@pytest.fixture(params=FIGURES)
def figure(request: pytest.FixtureRequest) -> Figure:
    return FIGURES[request.param]


def svg_of(figure: Figure) -> ET.Element:
    element = ET.fromstring(figure._repr_html_())[0]  # noqa: S314  # our own figure
    assert element.tag == f"{SVG}svg"
    return element


def test_a_figure_is_well_formed_and_named_for_a_screen_reader(figure: Figure) -> None:
    svg = svg_of(figure)
    assert svg.get("role") == "img"
    assert svg.findtext(f"{SVG}title") == figure.title
    assert svg.findtext(f"{SVG}desc") == "; ".join(figure.words)


def test_its_text_is_its_words_in_80_columns(figure: Figure) -> None:
    lines = repr(figure).splitlines()
    assert lines[0] == figure.title
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(" ".join(lines[1:]).split()) == " ".join(" ".join(figure.words).split())


def test_all_that_is_drawn_lies_inside_the_frame(figure: Figure) -> None:
    svg = svg_of(figure)
    _, _, width, height = map(float, (svg.get("viewBox") or "").split())
    for box in svg.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for text in svg.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x") or -1) <= width


def test_it_names_no_id_so_that_a_page_can_show_it_twice(figure: Figure) -> None:
    assert not re.search(r'\bid="', figure._repr_html_())  # what a page shows


def test_each_process_draws_the_same_bytes() -> None:
    """Whatever the order in which that process's sets and hashes happen to be."""
    show = (
        "from tests.draw.test_figures import FIGURES;"
        "print(*(figure._repr_html_() for figure in FIGURES.values()))"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", show],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    here = " ".join(figure._repr_html_() for figure in FIGURES.values()) + "\n"
    assert drawn == {here.encode()}


def test_text_takes_the_color_of_the_page(figure: Figure) -> None:
    for text in svg_of(figure).iter(f"{SVG}text"):
        assert text.get("fill") == "currentColor"


def texts(figure: Figure) -> list[str]:
    return [text.text or "" for text in svg_of(figure).iter(f"{SVG}text")]


def test_each_number_of_a_matrix_carries_its_rank_beside_its_color() -> None:
    assert texts(FIGURES["matrix"]) == ["weight", "0", "0", "1", "1", "1", "1"]
    assert FIGURES["matrix"].words == ("row 0: 2 of rank 0, 1 of rank 1", "row 1: 3 of rank 1")


def test_padding_is_said_and_hatched_and_carries_no_number() -> None:
    line = FIGURES["line"]
    assert line.words == (
        "rank 0: 2 of weight",
        "rank 1: 2 of weight",
        "rank 2: 2 of weight",
        "rank 3: 1 of bias, 1 of padding",
    )
    assert texts(line).count("3") == 1  # the bias; the padding beside it has none


def test_a_group_that_is_no_row_and_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"group \(0, 3\) is neither a row nor a column"):
        draw_mesh("diagonal", [[0, 1], [2, 3]], {(0, 3): ["1 sum"]})


def test_a_unit_that_owns_nothing_says_so() -> None:
    assert FIGURES["tree"].words == ("unit root (Net) owns nothing", "unit 0 (Block) owns w")


def test_many_owned_names_take_several_lines_and_stay_narrow() -> None:
    names = tuple(f"block.{number}.weight" for number in range(20))
    tree = draw_tree("one unit", [TreeRow("root", 0, "Net", names), TreeRow("0", 1, "A", None)])
    assert tree.width < 390
    assert tree.words == (f"unit root (Net) owns {', '.join(names)}",)
    drawn = " ".join(texts(tree))
    assert all(name in drawn for name in names)
    heights = {text.text: float(text.get("y") or 0) for text in svg_of(tree).iter(f"{SVG}text")}
    assert max(heights.values()) == heights["0 A"]  # the next module is below the last line


def test_a_timeline_says_the_peak_and_each_event() -> None:
    words = "\n".join(FIGURES["timeline"].words)
    assert "most bytes of whole weights: 100" in words
    assert "forward: gather a [a], forward-start a [a], free a [none]" in words


def test_bars_share_a_scale_and_the_smallest_amount_is_seen() -> None:
    boxes = [float(box.get("width") or 0) for box in svg_of(FIGURES["bars"]).iter(f"{SVG}rect")]
    rest, whole, least = boxes[2:]  # after the legend's two
    assert whole == pytest.approx(3 * rest, abs=0.2)
    assert least == 1
    assert FIGURES["bars"].words == ("one, 8: 1 + 3", "other, 64: 0 + 0.001")


@pytest.mark.parametrize("parts", [(-1.0,), (1.0, 2.0)])
def test_a_bar_below_zero_or_beside_its_legend_is_refused(parts: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="bar '8' has parts"):
        draw_bars("bytes", {"one": [Bar("8", parts, "")]})


def test_a_sequence_says_who_did_what_and_who_was_told() -> None:
    assert FIGURES["sequence"].words == (
        "your kernel -> rank 1: begin",
        "rank 0, rank 1 together: summing",
        "rank 1 -> your kernel: done",
    )
    words = ["a run", "your", "kernel", "rank", "0", "rank", "1", "begin", "summing", "done"]
    assert texts(FIGURES["sequence"]) == words
    assert len(list(svg_of(FIGURES["sequence"]).iter(f"{SVG}rect"))) == 2  # what a rank does


def test_an_event_without_a_lane_is_refused() -> None:
    with pytest.raises(ValueError, match="no lane for rank 1"):
        draw_sequence("a run", LANES[:2], RUN)


def test_owners_come_row_by_row_from_a_layouts_shards() -> None:
    def shard(rank: int, start: int, stop: int) -> Shard:
        held = ParameterSlice("w", (2, 3), start, stop, 0)
        return Shard("", rank, 0, 4, (held,), ())

    layout = Layout((), (shard(0, 0, 4), shard(1, 4, 6)), ())
    assert find_owners(layout, "w") == [[0, 0, 0], [0, 1, 1]]
    with pytest.raises(KeyError, match="no shard of the layout holds anything of 'v'"):
        find_owners(layout, "v")


def circles_of(figure: Figure) -> list[ET.Element]:
    return list(svg_of(figure).iter(f"{SVG}circle"))


def test_equal_steps_of_a_scale_are_equal_factors() -> None:
    """A tenfold time lies as far to the right wherever it is."""
    times = [0.01, 0.1, 1.0, 10.0]
    figure = draw_scale("decades", [ScaleRow(f"{t}", (Mark("one", t, t, t),)) for t in times])
    x = [float(circle.get("cx") or "") for circle in circles_of(figure)[:4]]
    steps = [right - left for left, right in itertools.pairwise(x)]
    assert steps[0] > 0
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)  # a place has one decimal


def test_the_series_of_a_scale_differ_by_more_than_color() -> None:
    ring, disc, *_ = circles_of(FIGURES["scale"])
    assert (ring.get("fill-opacity"), disc.get("fill-opacity")) == ("0", "1")


def test_a_scale_says_each_time_with_its_spread() -> None:
    assert FIGURES["scale"].words == (
        "warm: 2 ranks 0.1 s (0.08 s to 0.3 s), 4 ranks 0.2 s (0.15 s to 0.2 s)",
        "cold: 2 ranks 3 s (2.9 s to 3.5 s), 4 ranks 123 s (120 s to 130 s)",
    )


def test_a_time_of_nothing_has_no_place_on_a_scale() -> None:
    with pytest.raises(ValueError, match="times above zero"):
        draw_scale("none", [ScaleRow("a", (Mark("one", 0.0, 0.0, 0.0),))])
