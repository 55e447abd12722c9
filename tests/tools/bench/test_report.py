"""What a run leaves: a table that hides nothing, and JSON that names no machine."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING

import pytest

from tools.bench.__main__ import is_good, main, run
from tools.bench.figures import RATIO, Figure, Missing
from tools.bench.processes import BenchFault
from tools.bench.report import describe_setting, list_lines, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = Figure("cell", "a cell", 0.1234567, "s", at_most=1.0, least=0.1, most=0.2, rounds=3)
BAD = Figure("build", "a build", 0.6, RATIO, at_most=0.5)
GAP = Missing("other", "another launcher", "it can't be imported")


def test_the_table_says_which_bar_is_met_and_which_is_not() -> None:
    good, bad, gap = list_lines([GOOD, GAP, BAD])
    assert " ".join(good.split()) == "a cell 0.123 s 0.1 to 0.2 (3) at most 1 s met"
    assert bad.endswith("0.6                           at most 0.5  NOT MET")
    assert gap == "NOT MEASURED: another launcher: it can't be imported"


def test_a_missed_bar_or_a_gap_is_not_good() -> None:
    free = Figure("free", "without a bar", 7.0, "s")
    assert is_good([GOOD, free])
    assert not is_good([GOOD, BAD])
    assert not is_good([GOOD, GAP])


def test_the_json_holds_every_figure_by_name() -> None:
    content = json.loads(write_json({"torch": "2.2.2"}, [GOOD, BAD, GAP]))
    assert list(content) == ["measured-on", "figures", "missing"]
    assert content["measured-on"] == {"torch": "2.2.2"}
    assert content["figures"]["cell"] == {
        "what": "a cell",
        "value": 0.123457,
        "unit": "s",
        "at_most": 1.0,
        "least": 0.1,
        "most": 0.2,
        "rounds": 3,
    }
    assert list(content["figures"]) == ["cell", "build"]
    assert content["missing"]["other"]["reason"] == "it can't be imported"


def test_the_setting_names_no_machine(ranks_python: str) -> None:
    setting = describe_setting(ranks_python)
    assert setting["torch"] == "2.2.2"
    assert setting["accelerate"] == "not there"
    assert int(setting["cores"]) >= 1
    assert set(setting) == {
        *("torch", "build", "accelerate", "python", "system", "cores", "load-before"),
    }
    assert platform.node() not in setting.values()


def test_a_measurement_that_fails_costs_no_other_its_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported by name, with the reason."""

    def fail(*_: object) -> Iterator[Figure]:
        yield GOOD
        raise BenchFault("a rank died")

    for name in ("launchers", "faults", "plans", "instruments", "builds"):
        measure = fail if name == "plans" else lambda *_: iter([BAD])
        monkeypatch.setattr(f"tools.bench.__main__.measure_{name}", measure)
    figures = run("", "")
    assert figures == [BAD, BAD, GOOD, Missing("plans", "plans", "a rank died"), BAD, BAD]
    assert "NOT MEASURED: plans: a rank died\n" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--ranks-python", "none", "--launchers-python", "none"]
    with pytest.raises(SystemExit) as ended:
        main([*given, "--json", str(tmp_path / "no" / "bench.json")])
    assert ended.value.code == 2
    assert "no is no folder" in capsys.readouterr().err
