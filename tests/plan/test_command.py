"""`python -m fsdp_demo plan`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from fsdp_demo.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

MODELS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 6, bias=False)

    def forward(self, batch):
        return self.one(batch)

def make():
    return nn.Sequential(Block(), Block(), nn.Linear(6, 3))

def example():
    return torch.ones(2, 6)

def fails():
    raise RuntimeError("no weights\\nto be found")

def makes_nothing():
    return 3

number = 3
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


def run(line: str) -> int:
    try:
        return main(line.split())
    except SystemExit as end:  # argparse ends the program
        return int(end.code or 0)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Units, counts, peaks and what was assumed."""
    assert run("plan some_models:make --world 4 --policy Block --order") == 0
    text = capsys.readouterr().out
    assert "Block" in text
    assert "0 (2 alike)" in text
    assert "reduce-scatter" in text
    assert "is assumed" in " ".join(text.split())
    assert run("plan some_models:make --world 4 --policy Block --example some_models:example") == 0
    assert "assumed" not in capsys.readouterr().out


def test_json_is_the_whole_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Units with their parameters, this rank's shards, collectives and memory, in order."""
    assert run("plan some_models:make --world 4 --rank 3 --policy Block --json") == 0
    made = json.loads(capsys.readouterr().out)
    assert [unit["name"] for unit in made["units"]] == ["", "0", "1"]
    assert made["units"][1]["flat_parameter"]["parameters"][0]["name"] == "0.one.weight"
    assert {shard["rank"] for shard in made["shards"]} == {3}
    assert made["collectives"][0]["kind"] == "all-gather"
    assert made["memory"][0]["kind"] == "start"


def test_svg_is_a_file_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It parses, sets its colors itself, and says in words what it shows, at any world."""
    for world in (4, 1024):
        assert run(f"plan some_models:make --world {world} --svg shards.svg") == 0
        text = (tmp_path / "shards.svg").read_text(encoding="utf-8")
        root = ET.fromstring(text)  # noqa: S314  # we wrote it
        assert root.tag.endswith("svg")
        assert "color:#111" in text
        assert f"{world} shards" in text
        assert len(text) < 100_000
    capsys.readouterr()


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each policy, strategy and world."""
    line = "plan some_models:make --world 2 4 --policy none Block --strategy FULL_SHARD NO_SHARD"
    assert run(f"{line} --compare") == 0
    text = capsys.readouterr().out
    assert len([line for line in text.splitlines() if "SHARD" in line]) == 8
    assert text.count("is assumed") == 1, "what all plans say is said once"
    assert run(line) == 2
    assert "--compare" in capsys.readouterr().err


def test_compare_takes_a_mesh_for_each_world(capsys: pytest.CaptureFixture[str]) -> None:
    """Hybrid strategies use it; the others shard over the whole world all the same."""
    line = "plan some_models:make --world 4 6 --strategy FULL_SHARD HYBRID_SHARD --mesh 2x2 3x2"
    assert run(f"{line} --compare") == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "SHARD" in line]
    assert rows == [
        ["FULL_SHARD", "4"],
        ["FULL_SHARD", "6"],
        ["HYBRID_SHARD", "2x2"],
        ["HYBRID_SHARD", "3x2"],
    ]


def test_compare_says_that_a_policy_matches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan some_models:make --world 2 4 --policy none size:999 --compare") == 0
    assert "matches no module" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "the only command is plan"),
        ("show", "the only command is plan"),
        ("plan", "required: module:factory, --world"),
        ("plan some_models:make --world two", "invalid int value: 'two'"),
        ("plan nowhere:make --world 2", "module 'nowhere' can't be imported"),
        ("plan some_models:nothing --world 2", "module 'some_models' has no 'nothing'"),
        ("plan some_models --world 2", "is no module:name"),
        ("plan some_models:number --world 2", "no function that makes a model"),
        ("plan some_models:makes_nothing --world 2", "makes no nn.Module, but a int"),
        ("plan some_models:fails --world 2", "no weights to be found"),
        ("plan some_models:make --world 2 --policy Brick", "no module of the model is a Brick"),
        ("plan some_models:make --world 2 --policy size:many", "size:1000000"),
        ("plan some_models:make --world 8 --mesh 3x2 --strategy HYBRID_SHARD", "6 ranks"),
        ("plan some_models:make --world 8 --mesh 4 --strategy HYBRID_SHARD", "as in 2x4"),
        ("plan some_models:make --world 8 --strategy HYBRID_SHARD", "needs mesh"),
        ("plan some_models:make --world 8 --mesh 2x4", "--mesh is for hybrid strategies"),
        ("plan some_models:make --world 8 --strategy ZERO", "no sharding strategy 'ZERO'"),
        ("plan some_models:make --world 8 --param-dtype int8", "no floating dtype"),
        ("plan some_models:make --world 8 --rank 8", "rank 8 is not in a world of 8"),
        ("plan some_models:make --world 2 --svg no/such/folder.svg", "No such file"),
        ("plan some_models:make --world 2 --compare --json", "leave out --json"),
    ],
)
def test_bad_input_gets_one_line(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit status 2."""
    assert run(line) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert words in said.err
