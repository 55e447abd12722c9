"""What the whole build costs, what it would cost as plain scripts, and what a rebuild costs."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.figures import Figure, Missing, take_median, take_ratio
from tools.bench.processes import ROOT, BenchFault, run_timed
from tools.bench.scripts import find_different, write_scripts
from tools.site_build import list_build_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUILDS = 3
REBUILDS = 3
BUILD_LIMIT_S = 600.0
SCRIPT_LIMIT_S = 900.0
BUILD_BAR = 0.5  # of the scripts' time

SENTENCE = "\nThis sentence is new.\n"
COMMENT = "# one line more\n"


def measure_builds(
    python: str, cell_seconds: dict[int, float], builds: int = BUILDS, rebuilds: int = REBUILDS
) -> Iterator[Figure | Missing]:
    """Build a copy of this checkout, and run its lessons as scripts in between.

    Args:
        python: what the lessons' kernel runs.
        cell_seconds: what `mp.spawn` took for a script of one cell, by world.
        builds: how often the site is built from scratch.
        rebuilds: how often it is built again after each kind of edit.

    Raises:
        BenchFault: a build or a script failed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        site = Path(folder, "site")
        copy_checkout(site)
        pages = sorted((site / "docs" / "lessons").glob("*.md"))
        scripts = write_scripts(pages, Path(folder, "scripts"))
        both = list(zip(pages, scripts, strict=True))
        shares = [both[turn::builds] for turn in range(builds)]
        whole, plain = [], 0.0
        for share in shares:
            whole.append(build(site, "force"))
            plain += sum(run_script(python, page, script) for page, script in share)
        build_figure = take_median("build", "the whole build", "s", whole)
        script_figure = Figure("build-scripts", "the lessons as scripts, in turn", plain, "s")
        yield build_figure
        yield script_figure
        yield take_ratio(
            "build-to-scripts",
            "the whole build, as a share of the scripts",
            build_figure,
            script_figure,
            BUILD_BAR,
        )
        worlds = [read_world(page) for page in pages]
        if set(worlds) <= set(cell_seconds):
            least = Figure(
                "build-starts",
                "one `mp.spawn` a lesson, with one step in it",
                sum(cell_seconds[world] for world in worlds),
                "s",
            )
            yield least
            yield take_ratio(
                "build-to-starts", "the whole build, as a share of that", build_figure, least
            )
        yield from measure_rebuilds(site, pages, build_figure, rebuilds)


def measure_rebuilds(
    site: Path, pages: Sequence[Path], whole: Figure, rebuilds: int
) -> Iterator[Figure]:
    """Edit one page after the other, and build as `nox -s live` does."""
    build(site, "cache")  # what a contributor has already
    seconds: dict[str, list[float]] = {"sentence": [], "cell": []}
    for turn in range(rebuilds):
        page = pages[turn * len(pages) // rebuilds]
        add_sentence(page)
        seconds["sentence"].append(build(site, "cache"))
        add_comment(page)
        seconds["cell"].append(build(site, "cache"))
    for edited, samples in seconds.items():
        what = f"the rebuild after an edit of one {edited}"
        figure = take_median(f"rebuild-{edited}", what, "s", samples)
        yield figure
        yield take_ratio(
            f"rebuild-{edited}-to-build", f"{what}, as a share of the whole build", figure, whole
        )


def copy_checkout(to: Path) -> None:
    """Copy what git knows of this checkout, and what it would know: nothing built, nothing made.

    Raises:
        BenchFault: this is no checkout of git's.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise BenchFault(f"git does not list this checkout: {listed.stderr.strip()}")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():  # not one that was removed and not committed yet
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def build(site: Path, mode: str) -> float:
    """Build, from scratch in the mode "force", and return the seconds that it took.

    Raises:
        BenchFault: it failed or found something.
    """
    folder = "build" if mode == "force" else "live"
    if mode == "force":
        shutil.rmtree(site / folder, ignore_errors=True)
    arguments = list_build_arguments(mode, f"{folder}/doctrees", f"{folder}/html")
    # The page that shows these very figures may want one that no run has measured yet.
    command = [sys.executable, "-m", "sphinx", *arguments, "-D", "suppress_warnings=measured"]
    return run_timed(command, timeout_s=BUILD_LIMIT_S, folder=site).seconds


def run_script(python: str, page: Path, script: Path) -> float:
    """Run a lesson's script where it may write, and return the seconds that it took.

    Raises:
        BenchFault: it failed, or it printed something else than the page: it did not do the same.
    """
    run = run_timed([python, script.name], timeout_s=SCRIPT_LIMIT_S, folder=script.parent)
    different = find_different(page, run.stdout)
    if different:
        raise BenchFault(f"{script.name} prints other than {page.name} at {', '.join(different)}")
    return run.seconds


def read_world(page: Path) -> int:
    """Return the world size that a lesson states in its first cell.

    Raises:
        BenchFault: it states none.
    """
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("WORLD = "):
            world: int = ast.literal_eval(line.removeprefix("WORLD = "))
            return world
    raise BenchFault(f"{page.name} states no WORLD")


def add_sentence(page: Path) -> None:
    """Add a sentence to the end of a page."""
    with page.open("a", encoding="utf-8") as file:
        file.write(SENTENCE)


def add_comment(page: Path) -> None:
    """Add a comment to the end of a page's first cell.

    Raises:
        BenchFault: the page has no cell.
    """
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    starts = [index for index, line in enumerate(lines) if line.startswith("```{code-cell}")]
    if not starts:
        raise BenchFault(f"{page.name} has no code cell")
    end = lines.index("```\n", starts[0])
    lines.insert(end, COMMENT)
    page.write_text("".join(lines), encoding="utf-8")
