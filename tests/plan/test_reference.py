"""The reference page names what a plan takes and holds, and nothing that is not there."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch.distributed.fsdp

from fsdp_demo import records
from fsdp_demo.planner import Plan, plan
from fsdp_demo.planner.command import make_parser

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = (Path(__file__).parents[2] / "docs/reference/plan.md").read_text(encoding="utf-8")
RECORDS = (
    Plan,
    records.Unit,
    records.FlatParameter,
    records.Parameter,
    records.Padding,
    records.Shard,
    records.ParameterSlice,
    records.Collective,
    records.MemoryEvent,
)


def find_entries(heading: str) -> dict[str, str]:
    """Return the definition list below a heading: its terms and what is said of each."""
    text = PAGE.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    return dict(re.findall(r"^(`.+)\n: (.+(?:\n  .+)*)$", text, re.MULTILINE))


def find_names(texts: Iterable[str]) -> set[str]:
    """Return the names in code spans, without the arguments of a call."""
    return {name for text in texts for name in re.findall(r"`(\w+)(?:\([^`]*\))?`", text)}


@pytest.mark.parametrize("record", RECORDS)
def test_each_record_is_there_in_full(record: type) -> None:
    public = {name for name in vars(record) if not name.startswith("_")}
    public |= {field.name for field in dataclasses.fields(record)}
    assert find_names(find_entries(f"### `{record.__name__}`")) == public


def test_each_record_that_a_plan_holds_is_on_the_page() -> None:
    """Layout and rows in part are told where they are handed out; an event is of a run."""
    held = {getattr(records, name) for name in records.__all__}
    classes = {record for record in held if isinstance(record, type)}
    assert classes - set(RECORDS) == {records.Event, records.Layout, records.PartRow}


def test_each_argument_is_there() -> None:
    arguments = find_names(find_entries("## What it takes"))
    assert arguments == set(inspect.signature(plan).parameters)


def test_each_option_of_the_command_is_there() -> None:
    actions = make_parser()._actions  # noqa: SLF001  # argparse has no public list
    options = {action.option_strings[-1] for action in actions if action.option_strings}
    assert {option for option in options if option not in PAGE} == {"--help"}


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_said_to_be_torchs_is_torchs(record: type) -> None:
    """Each name that is called torch's stands in the source of torch.distributed.fsdp."""
    folder = Path(torch.distributed.fsdp.__file__).parent
    source = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    said = find_entries(f"### `{record.__name__}`").values()
    names = find_names(text.split("In torch:")[1] for text in said if "In torch:" in text)
    assert names
    assert {name for name in names if not re.search(rf"\b{name}\b", source)} == set()
