"""Make the environments under .envs/: once each, shared by every session.

An environment is good when its stamp, the last file written, says that it was made from what is
there now. Anything else is removed and made anew, so a half-made one is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools import kernels, locks, torch_index
from tools.interpreter import NoInterpreterError, find_interpreter
from tools.waiting import one_at_a_time

ROOT = Path(__file__).resolve().parent.parent
RECIPE = 1  # raised by hand when the steps below change, so that every environment is made anew
# What decides how the project is installed, and its kernel; nothing else is made anew for these.
PROJECT_FILES = ("pyproject.toml", "tools/kernels.py")


class EnvironmentFault(Exception):  # noqa: N818 - EnvironmentError is a name of Python's own
    """An environment could not be made; the message says why and what to do."""


@dataclass(frozen=True)
class Environment:
    """A folder under .envs/ and what goes into it.

    `requires` lists what is installed besides the lines of requirements/`source`; all versions,
    also those of what these require in turn, come from requirements/`name`.txt.
    """

    name: str
    source: str  # a file in requirements/
    requires: tuple[str, ...] = ()
    torch: str | None = None
    kernel: str | None = None
    holds_project: bool = True
    over: Environment | None = None  # holds all of that one too, by reference: torch is 5 GB
    root: Path = ROOT

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.root / ".envs" / self.name

    @property
    def lock(self) -> Path:
        """The pins of everything in it."""
        return self.root / "requirements" / f"{self.name}.txt"

    @property
    def stamp(self) -> Path:
        """What it was made from, as JSON; there only when it was made to the end."""
        return self.folder / "made-from.json"

    def program(self, name: str) -> str:
        """Return the path of one of its programs."""
        return str(self.folder / "bin" / name)


def make_environment(environment: Environment) -> None:
    """Make sure that `environment` is there, whole, and made from what is there now.

    Raises EnvironmentFault.
    """
    if not environment.lock.exists():
        raise EnvironmentFault(f"{environment.lock} is not there: run `nox -s lock`.")
    if environment.over:
        make_environment(environment.over)
    doing = f"making .envs/{environment.name}"
    waiting_place = environment.folder.parent / f"{environment.name}.lock"
    with one_at_a_time(waiting_place, doing) as held:
        ingredients = list_ingredients(environment)
        reason = find_reason(environment, ingredients)
        if reason:
            print(f"Making .envs/{environment.name}: {reason}.", flush=True)
            _make(environment, ingredients, held)
        _add_project(environment, held)


def find_reason(environment: Environment, ingredients: dict[str, str]) -> str | None:
    """Return why `environment` has to be made, in words; None when it is good as it is."""
    if not environment.folder.exists():
        return "it is not there yet"
    made_from = _read_stamp(environment)
    if not made_from:
        return "an earlier run was cut off, what it left is removed"
    if not Path(environment.program("python")).exists():
        return "the Python that it was made with is gone"
    changed = [what for what, value in ingredients.items() if made_from.get(what) != value]
    return f"the old one is removed, another {' and '.join(changed)}" if changed else None


def list_ingredients(environment: Environment) -> dict[str, str]:
    """Return everything that decides what the environment holds, by name."""
    try:
        python = find_interpreter().version
    except NoInterpreterError as error:
        raise EnvironmentFault(str(error)) from None
    source = environment.root / "requirements" / environment.source
    ingredients = {
        "recipe": str(RECIPE),
        "folder": str(environment.folder),  # scripts and the kernel hold absolute paths
        "Python": python,
        source.name: _digest(source),
        environment.lock.name: _digest(environment.lock),
        "list of requirements": " ".join(environment.requires),
    }
    if environment.over:
        ingredients[f".envs/{environment.over.name}"] = _identify(_read_stamp(environment.over))
    asked = torch_index.asked_index()
    if environment.torch and asked:  # when nothing is asked for, either build of torch is good
        ingredients[torch_index.VARIABLE] = asked
    return ingredients


def _make(environment: Environment, ingredients: dict[str, str], held: int) -> None:
    """Remove what is there, install, check, and write the stamp last."""
    environment.stamp.unlink(missing_ok=True)  # first: a removal can be cut off as well
    shutil.rmtree(environment.folder, ignore_errors=True)
    # nox brings virtualenv, which brings pip: so a Python without venv and ensurepip is enough.
    _run(
        [
            *(sys.executable, "-m", "virtualenv", "--quiet", "--no-setuptools"),
            *("--no-download", "--no-periodic-update"),
            *("--python", find_interpreter().path, str(environment.folder)),
        ],
        held,
    )
    if environment.over:
        _add_path_to(environment, environment.over)
    constrained = ["--constraint", str(environment.lock)]
    _pip(environment, ["install", "--quiet", *constrained, "pip"], held)
    if environment.torch:
        _install_cpu_torch(environment, held)
    source = environment.root / "requirements" / environment.source
    requirements = ["--requirement", str(source), *environment.requires]
    _pip(environment, ["install", *constrained, *requirements], held)

    _pip(environment, ["check"], held)
    installed = locks.list_installed(Path(environment.program("python")))
    unlocked = locks.find_unlocked(installed, locks.read_lock(environment.lock))
    if unlocked:
        raise EnvironmentFault(
            f"requirements/{environment.lock.name} does not pin what was installed: "
            f"{', '.join(unlocked)}. Run `nox -s lock`."
        )
    _write_stamp(environment, ingredients)


def _add_path_to(environment: Environment, below: Environment) -> None:
    """Let the Python of `environment` import all that `below` holds, the project included."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours, theirs = (
        subprocess.run([e.program("python"), "-c", ask], capture_output=True, text=True, check=True)
        for e in (environment, below)
    )
    line = f"import site; site.addsitedir({theirs.stdout.strip()!r})\n"
    Path(ours.stdout.strip(), f"{below.name}.pth").write_text(line, encoding="utf-8")


def _install_cpu_torch(environment: Environment, held: int) -> None:
    """Install torch's CPU build from its own index if that answers, and say which was taken.

    Torch alone comes from there. What it requires, and torch itself if this fails, comes with the
    other requirements from the package index.
    """
    index = torch_index.choose_cpu_index()
    if index:
        print(f"Taking torch {environment.torch} (CPU build) from {index}.", flush=True)
        wanted = ["--no-deps", "--index-url", index, f"torch=={environment.torch}+cpu"]
        try:
            _pip(environment, ["install", *wanted], held)
        except EnvironmentFault:
            print(f"{index} failed.", flush=True)
        else:
            return
    print(f"Taking torch {environment.torch} from the package index.", flush=True)


def _add_project(environment: Environment, held: int) -> None:
    """Install this project, editable, and the kernel; again whenever what decides them changes."""
    if not environment.holds_project:
        return
    project = {name: _digest(environment.root / name) for name in PROJECT_FILES}
    made_from = _read_stamp(environment)
    if made_from == made_from | project:
        return
    editable = ["--no-deps", "--no-build-isolation", "--editable", str(environment.root)]
    _pip(environment, ["install", "--quiet", *editable], held)
    if environment.torch and environment.kernel:
        kernels.write_kernel(
            environment.folder, environment.kernel, environment.torch, _identify(made_from)
        )
    _write_stamp(environment, made_from | project)


def _pip(environment: Environment, arguments: list[str], held: int) -> None:
    _run([environment.program("python"), "-m", "pip", *arguments], held)


def _run(command: list[str], held: int) -> None:
    """Run `command` with its output shown; it holds the lock too, should this process be killed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    clean |= {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=clean, pass_fds=[held], check=False)
    if done.returncode != 0:
        raise EnvironmentFault(f"Failed with status {done.returncode}: {' '.join(command)}")


def _read_stamp(environment: Environment) -> dict[str, str]:
    try:
        stamp: dict[str, str] = json.loads(environment.stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp


def _write_stamp(environment: Environment, made_from: dict[str, str]) -> None:
    draft = environment.stamp.with_suffix(".new")
    draft.write_text(json.dumps(made_from, indent=2) + "\n", encoding="utf-8")
    draft.replace(environment.stamp)


def _identify(made_from: dict[str, str]) -> str:
    """Return a name for all that is installed; the project itself is read where it stands."""
    ingredients = {k: v for k, v in made_from.items() if k not in PROJECT_FILES}
    return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()[:16]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
