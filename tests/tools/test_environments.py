"""Environments are made once, whole, from what is there now: each test makes real ones."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools import kernels, torch_index
from tools.environments import (
    ROOT,
    Environment,
    EnvironmentFault,
    find_reason,
    list_ingredients,
    make_environment,
)

if TYPE_CHECKING:
    from tests.tools.conftest import Indexes

PACKAGE_WHEEL = "torch-2.2.2-py3-none-any.whl"
CPU_WHEEL = "torch-2.2.2+cpu-py3-none-any.whl"


@pytest.fixture(scope="module")
def seeded_pip(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the version of the pip that virtualenv brings, which needs no index."""
    folder = tmp_path_factory.mktemp("seeded") / "environment"
    command = [sys.executable, "-m", "virtualenv", "-q", "--no-download", "--no-setuptools"]
    subprocess.run([*command, str(folder)], check=True)
    ask = [str(folder / "bin" / "python"), "-m", "pip", "--version"]
    answer = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    return answer.split()[1]  # "pip 26.3 from ..."


@pytest.fixture
def environment(
    tmp_path: Path, indexes: Indexes, seeded_pip: str, monkeypatch: pytest.MonkeyPatch
) -> Environment:
    """Return one with torch and nothing else, in a project of its own; its CPU index is off."""
    assert indexes.url
    monkeypatch.setenv(torch_index.VARIABLE, "none")
    folder = tmp_path / "project" / "requirements"
    folder.mkdir(parents=True)
    (folder / "ranks.in").write_text("# nothing else\n")
    (folder / "torch.txt").write_text(f"# a comment\ntorch==2.2.2\npip=={seeded_pip}\n")
    return Environment(
        name="torch",
        source="ranks.in",
        requires=("torch==2.2.2",),
        torch="2.2.2",
        holds_project=False,
        root=folder.parent,
    )


def build_of(environment: Environment) -> str:
    return kernels.ask_build(Path(environment.program("python")))


def start_making(environment: Environment, output: Path) -> subprocess.Popen[bytes]:
    """Start another process that makes `environment`."""
    code = (
        "from pathlib import PosixPath\n"
        "from tools.environments import Environment, make_environment\n"
        f"make_environment({environment!r})"
    )
    with output.open("wb") as file:
        return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=file, stderr=file)


def test_makes_it_once(environment: Environment, capfd: pytest.CaptureFixture[str]) -> None:
    make_environment(environment)
    first = capfd.readouterr().out
    assert "Making .envs/torch: it is not there yet.\n" in first
    assert "Successfully installed torch-2.2.2" in first  # pip's own words, as they come
    make_environment(environment)
    assert capfd.readouterr().out == ""


def test_makes_it_anew_when_its_lock_changes(
    environment: Environment, capfd: pytest.CaptureFixture[str]
) -> None:
    make_environment(environment)
    (environment.folder / "left-over").touch()
    environment.lock.write_text(environment.lock.read_text() + "# moved\n")
    capfd.readouterr()
    make_environment(environment)
    assert "the old one is removed, another torch.txt." in capfd.readouterr().out
    assert not (environment.folder / "left-over").exists()


def test_sees_what_else_makes_it_anew(environment: Environment) -> None:
    make_environment(environment)
    ingredients = list_ingredients(environment)
    assert find_reason(environment, ingredients) is None
    another_row = list_ingredients(replace(environment, requires=("torch==2.2.2", "pip")))
    assert (find_reason(environment, another_row) or "").endswith("another list of requirements")
    another_python = ingredients | {"Python": "3.10"}
    assert (find_reason(environment, another_python) or "").endswith("another Python")
    Path(environment.program("python")).unlink()
    gone = "the Python that it was made with is gone"
    assert find_reason(environment, ingredients) == gone


def test_a_killed_run_is_waited_for_and_redone(
    environment: Environment, indexes: Indexes, tmp_path: Path
) -> None:
    """Its pip outlives it, and nothing may be removed under that one's hands."""
    indexes.held.add(PACKAGE_WHEEL)
    killed = start_making(environment, tmp_path / "killed.txt")
    assert indexes.asked_for_held.wait(timeout=60)
    killed.send_signal(signal.SIGKILL)
    killed.wait(timeout=10)

    second = start_making(environment, tmp_path / "second.txt")
    waiting = "Another run is making .envs/torch: waiting for it to end.\n"
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=2)
    assert (tmp_path / "second.txt").read_text() == waiting
    indexes.release.set()
    assert second.wait(timeout=60) == 0
    assert "an earlier run was cut off" in (tmp_path / "second.txt").read_text()
    assert environment.stamp.exists()


def test_two_runs_at_once_make_it_once(environment: Environment, tmp_path: Path) -> None:
    outputs = [tmp_path / "first.txt", tmp_path / "second.txt"]
    runs = [start_making(environment, output) for output in outputs]
    assert [run.wait(timeout=60) for run in runs] == [0, 0]
    said = "".join(output.read_text() for output in outputs)
    assert said.count("Making .envs/torch") == 1


def test_takes_the_cpu_build_from_its_index(
    environment: Environment,
    indexes: Indexes,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(torch_index.VARIABLE, indexes.cpu_index)
    make_environment(environment)
    said = capfd.readouterr().out
    assert f"Taking torch 2.2.2 (CPU build) from {indexes.cpu_index}.\n" in said
    assert "package index" not in said
    assert build_of(environment) == "cpu"


def test_takes_the_package_index_when_the_cpu_index_fails_midway(
    environment: Environment,
    indexes: Indexes,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(torch_index.VARIABLE, indexes.cpu_index)
    indexes.broken.add(CPU_WHEEL)
    make_environment(environment)
    said = capfd.readouterr().out
    assert f"{indexes.cpu_index} failed.\nTaking torch 2.2.2 from the package index.\n" in said
    assert build_of(environment) == "cu121"


def test_asking_for_another_index_makes_it_anew(
    environment: Environment, indexes: Indexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_environment(environment)
    assert build_of(environment) == "cu121"
    monkeypatch.setenv(torch_index.VARIABLE, indexes.cpu_index)
    make_environment(environment)
    assert build_of(environment) == "cpu"
    monkeypatch.delenv(torch_index.VARIABLE)  # nothing asked for: what is there is good
    make_environment(environment)
    assert build_of(environment) == "cpu"


def test_refuses_what_the_lock_does_not_pin(environment: Environment) -> None:
    lock = environment.lock.read_text().replace("torch==2.2.2\n", "")
    environment.lock.write_text(lock)
    with pytest.raises(EnvironmentFault, match=r"torch.txt does not pin .*: torch 2.2.2. Run"):
        make_environment(environment)
    assert not environment.stamp.exists()


def test_says_which_lock_is_missing(environment: Environment) -> None:
    environment.lock.unlink()
    with pytest.raises(EnvironmentFault, match=r"torch.txt is not there: run `nox -s lock`."):
        make_environment(environment)


def test_the_kernel_tells_torch_and_build(environment: Environment) -> None:
    make_environment(environment)
    file = kernels.write_kernel(environment.folder, "torch-2.2.2", "2.2.2", made_from="abc")
    assert file.parts[-4:] == ("jupyter", "kernels", "torch-2.2.2", "kernel.json")
    assert '"torch": "2.2.2",\n      "build": "cu121",\n' in file.read_text()


@pytest.fixture
def above(environment: Environment) -> Environment:
    """Return one that is made over `environment`."""
    (environment.lock.parent / "above.in").write_text("# nothing else\n")
    lock = environment.lock.parent / "above.txt"
    lock.write_text(environment.lock.read_text())
    return Environment(
        "above", "above.in", holds_project=False, over=environment, root=environment.root
    )


def test_one_over_another_holds_that_one_too_by_reference(
    above: Environment, environment: Environment
) -> None:
    make_environment(above)
    assert environment.stamp.exists()
    assert build_of(above) == build_of(environment)
    assert not list(above.folder.rglob("torch"))


def test_one_over_another_is_made_anew_with_it(
    above: Environment, environment: Environment, capfd: pytest.CaptureFixture[str]
) -> None:
    make_environment(above)
    environment.lock.write_text(environment.lock.read_text() + "# moved\n")
    capfd.readouterr()
    make_environment(above)
    said = capfd.readouterr().out
    assert "Making .envs/torch: the old one is removed, another torch.txt." in said
    assert "Making .envs/above: the old one is removed, another .envs/torch." in said
    make_environment(above)
    assert capfd.readouterr().out == ""


def test_one_over_another_pins_all_of_that_one(
    above: Environment, environment: Environment
) -> None:
    above.lock.write_text(environment.lock.read_text().replace("torch==2.2.2\n", ""))
    with pytest.raises(EnvironmentFault, match=r"above.txt does not pin .*: torch 2.2.2. Run"):
        make_environment(above)
