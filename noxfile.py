"""The sessions, and the table of torch versions that the lessons can run on.

Every session uses the environments under .envs/, which are made once and shared (see
tools/environments.py). nox itself makes none.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nox

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # nox runs this file from wherever it was started

# After the line above, which lets Python find them.
from tools.environments import Environment, EnvironmentFault, make_environment  # noqa: E402
from tools.halves import SITE_PACKAGES  # noqa: E402
from tools.pytest_runs import Outcomes, PytestRun  # noqa: E402
from tools.side_by_side import run_side_by_side  # noqa: E402
from tools.site_build import READERS, list_build_arguments, make_empty  # noqa: E402
from tools.waiting import one_at_a_time  # noqa: E402

# One row a torch version: its kernel's name, and what is installed. A page names its kernel in its
# front matter. After a change of a row: `nox -s lock`.
TORCH_VERSIONS = {
    # Built against numpy 1; torch.distributed.fsdp imports numpy though torch doesn't require it.
    "2.2.2": ("torch-2.2.2", ("torch==2.2.2", "numpy<2")),
}

TORCH = tuple(
    Environment(kernel, "ranks.in", requires, torch=version, kernel=kernel)
    for version, (kernel, requires) in TORCH_VERSIONS.items()
)
SITE = Environment("site", "site.in")
# What spawn is measured against; only `nox -s bench` makes it. The first row's torch, by reference.
BENCH = Environment("bench", "bench.in", holds_project=False, over=TORCH[0])
LOCK = Environment("lock", "lock.in", holds_project=False)

# What is tested and type-checked with Sphinx at hand; everything else with torch at hand.
SITE_CODE = tuple(f"src/fsdp_demo/{package}" for package in SITE_PACKAGES)
BENCH_RANKS = "tools/bench/ranks"
SITE_TESTS = ("tests/tools", *(f"tests/{package}" for package in SITE_PACKAGES))

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "tests", "docs"]


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Check code, types, spelling and Markdown without running a page."""
    _make(session, SITE, *TORCH)
    mypy = SITE.program("mypy")
    not_here = [f"--exclude=^{path}/" for path in (*SITE_CODE, *SITE_TESTS, "tests/sites")]
    not_there = f"--exclude=^{BENCH_RANKS}/"
    _run_all(
        session,
        (SITE.program("ruff"), "check"),
        (SITE.program("ruff"), "format", "--check"),
        (mypy, not_there, "conf.py", "noxfile.py", "tools", *SITE_CODE, *SITE_TESTS),
        # With the first row's torch at hand, whose types are its own.
        (
            mypy,
            "--python-executable",
            TORCH[0].program("python"),
            *not_here,
            "src",
            "tests",
            BENCH_RANKS,
        ),
        (SITE.program("codespell"),),
        (SITE.program("pymarkdown"), "scan", "README.md", "docs"),
        (SITE.program("python"), "-m", "tools.check_lines", "README.md", "docs"),
    )


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run the tests, those of the build beside those that start ranks; `-- ...` goes to pytest."""
    _make(session, SITE, *TORCH)
    runs = [PytestRun("site", SITE.program("python"), SITE_TESTS)]
    runs += [PytestRun(e.name, e.program("python"), ("tests",), SITE_TESTS) for e in TORCH]
    for run in runs:
        run.report.unlink(missing_ok=True)
    commands = [command for run in runs if (command := run.command(session.posargs))]
    for command in commands:
        session.log(shlex.join(command))
    env = {k: v for k, v in {**os.environ, **_variables()}.items() if v is not None}
    try:
        codes = run_side_by_side(commands, env)
    finally:
        outcomes = Outcomes()
        for run in runs:
            outcomes.add(run.report)
        print(outcomes, flush=True)
    # 5: none was selected. That is no fault of a run, only of all of them.
    if not set(codes) <= {0, 5}:
        session.error("not all tests passed")
    if outcomes.passed == 0:
        session.error("no test ran")


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the site into build/html from scratch: run every page, compare every pin."""
    _make(session, SITE, *TORCH)
    with one_at_a_time(ROOT / ".envs" / "docs.lock", "building the site"):
        for folder in ("html", "doctrees"):
            try:
                make_empty(ROOT / "build" / folder)
            except OSError as error:
                session.error(f"build/{folder} can't be made anew: {error}")
        _run_all(
            session,
            (
                SITE.program("sphinx-build"),
                *list_build_arguments("force", "build/doctrees", "build/html"),
            ),
            (SITE.program("python"), "-m", "tools.check_site", "build/html"),
            (
                *(SITE.program("lychee"), "--offline", "--include-fragments", "--no-progress"),
                *("--exclude-path", "build/html/_static", "build/html"),
            ),
        )
    session.log("The site is there: build/html/index.html")


@nox.session(python=False)
def live(session: nox.Session) -> None:
    """Show the site in a browser while you write: a save runs again only what changed."""
    _make(session, SITE, *TORCH)
    session.run(
        *(SITE.program("sphinx-autobuild"), "-q", "-j", READERS, "-c", ".", "-b", "html"),
        *("-d", "build/live-doctrees", "-D", "nb_execution_mode=cache"),
        *("--host", "127.0.0.1", "--port", "0", "--open-browser"),
        *("--watch", "src", "--watch", "conf.py"),
        *("--re-ignore", r"__pycache__|\.py[co]$|~$|\.sw.$"),  # written by Python and by editors
        *session.posargs,
        *("docs", "build/live"),
        env=_variables(),
    )


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Measure what a build costs, in some minutes; `-- --json FILE` writes every figure."""
    _make(session, SITE, *TORCH, BENCH)
    with one_at_a_time(ROOT / ".envs" / "bench.lock", "measuring"):
        session.run(
            *(SITE.program("python"), "-m", "tools.bench"),
            *("--ranks-python", TORCH[0].program("python")),
            *("--launchers-python", BENCH.program("python")),
            *session.posargs,
            env=_variables(),
        )


@nox.session(python=False)
def pins(session: nox.Session) -> None:
    """Show what the last build printed differently; `-- --accept [page[::label]]` takes it over."""
    _make(session, SITE)
    session.run(SITE.program("python"), "-m", "fsdp_demo.pins", *session.posargs, env=_variables())


@nox.session(python=False)
def envs(session: nox.Session) -> None:
    """Make the environments that the other sessions use, and nothing else."""
    _make(session, SITE, *TORCH)


@nox.session(python=False)
def lock(session: nox.Session) -> None:
    """Move every pin in requirements/*.txt to the newest versions that work together."""
    _make(session, LOCK)
    with tempfile.TemporaryDirectory() as folder:
        for environment in (LOCK, SITE, *TORCH, BENCH):
            row = Path(folder) / "row.in"
            below = environment.over
            requires = (*environment.requires, *(below.requires if below else ()))
            row.write_text("\n".join(requires), encoding="utf-8")
            # What lies below is there already, at the versions of its own lock.
            given = [f"requirements/{below.source}", "-c", str(below.lock)] if below else []
            session.run(
                *(LOCK.program("uv"), "pip", "compile", "--quiet", "--no-config", "--upgrade"),
                # One lock for each supported Python, for Linux and macOS, with one version of each.
                *("--universal", "--python-version", "3.11", "--fork-strategy", "fewest"),
                *("--python", LOCK.program("python"), "--no-emit-index-url", "--no-annotate"),
                *("--custom-compile-command", "nox -s lock"),
                *("--output-file", str(environment.lock)),
                *(f"requirements/{environment.source}", str(row), *given),
            )


def _make(session: nox.Session, *environments: Environment) -> None:
    """Make `environments`, or end the session with the one line that says what is missing."""
    try:
        for environment in environments:
            make_environment(environment)
    except EnvironmentFault as fault:
        session.error(str(fault).rstrip("."))  # nox adds its own


def _variables() -> dict[str, str | None]:
    """Return what the programs of the sessions find in their process environment."""
    kernels = os.pathsep.join(str(e.folder / "share" / "jupyter") for e in TORCH)
    return {
        "JUPYTER_PATH": kernels,
        "PYTHONPATH": None,
        "PYTHONDONTWRITEBYTECODE": None,  # each rank would compile what it imports of the package
    }


def _run_all(session: nox.Session, *commands: Sequence[str]) -> None:
    """Run each command even if one before it failed, so that one run shows every finding."""
    failed = []
    for command in commands:
        try:
            session.run(*command, env=_variables())
        except nox.command.CommandFailed:
            failed.append(Path(command[0]).name)
    if failed:
        session.error(f"failed: {', '.join(failed)}")
