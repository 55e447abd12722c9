"""Arguments go to the run whose tests they name, and outcomes add up."""

from pathlib import Path

import pytest

from tools.pytest_runs import Outcomes, PytestRun

SITE = PytestRun("site", "python", ("tests/pins", "tests/tools"))
TORCH = PytestRun("torch", "python", ("tests",), ignored=("tests/pins", "tests/tools"))


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("tests/pins", "tests/tools", "tests/launch"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "test_x.py").touch()
    monkeypatch.chdir(tmp_path)


def chosen(run: PytestRun, *arguments: str) -> list[str] | None:
    command = run.command(list(arguments))
    return None if command is None else [a for a in command[3:] if not a.startswith(("-", "cache"))]


def test_without_arguments_each_run_takes_its_own() -> None:
    assert chosen(SITE) == ["tests/pins", "tests/tools"]
    assert chosen(TORCH) == ["tests"]
    assert "--ignore=tests/pins" in (TORCH.command([]) or [])


def test_a_path_goes_to_its_own_run_alone() -> None:
    assert chosen(SITE, "tests/pins/test_x.py::test_a") == ["tests/pins/test_x.py::test_a"]
    assert chosen(TORCH, "tests/pins/test_x.py::test_a") is None
    assert chosen(SITE, "tests/launch") is None
    assert chosen(TORCH, "tests/launch") == ["tests/launch"]


def test_a_path_above_goes_to_both() -> None:
    assert chosen(SITE, "tests") == ["tests/pins", "tests/tools"]
    assert chosen(TORCH, "tests") == ["tests"]


def test_an_option_goes_to_both() -> None:
    for run in (SITE, TORCH):
        command = run.command(["-k", "shard", "-x"])
        assert command is not None
        assert command[command.index("-k") :][:3] == ["-k", "shard", "-x"]


def test_outcomes_add_up(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite errors="1" failures="2" skipped="3" tests="10"/></testsuites>'
    )
    outcomes = Outcomes()
    outcomes.add(report)
    outcomes.add(report)
    outcomes.add(tmp_path / "never-written.xml")
    assert str(outcomes) == "8 passed, 6 failed, 6 skipped"
