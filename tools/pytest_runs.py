"""Run pytest once an environment, each on the tests that are written for it, as if it were once."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PytestRun:
    """The tests below `paths`, less those below `ignored`, in the environment called `name`."""

    name: str
    python: str
    paths: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    @property
    def report(self) -> Path:
        """Where pytest writes its outcomes, in JUnit's format."""
        return Path("build") / f"tests-{self.name}.xml"

    def command(self, arguments: list[str]) -> list[str] | None:
        """Return the command line for pytest's `arguments`; None if they name none of its tests.

        An argument that is a path, or a path and a test's name, is kept when it is of this run.
        Every other argument is an option, which is for each run.
        """
        given = [a for a in arguments if _is_path(a)]
        options = [a for a in arguments if a not in given]
        tests = [t for a in given for t in self._choose(a)] if given else list(self.paths)
        if not tests:
            return None
        fixed = [f"--junitxml={self.report}", "-o", f"cache_dir=.pytest_cache/{self.name}"]
        ignored = [f"--ignore={path}" for path in self.ignored]
        return [self.python, "-m", "pytest", *fixed, *ignored, *options, *tests]

    def _choose(self, argument: str) -> list[str]:
        asked = Path(argument.partition("::")[0])
        if any(asked.is_relative_to(path) for path in self.ignored):
            return []
        if any(asked.is_relative_to(path) for path in self.paths):
            return [argument]
        return [path for path in self.paths if Path(path).is_relative_to(asked)]


@dataclass
class Outcomes:
    """How many tests ended how, over all runs; an error around a test counts as failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, report: Path) -> None:
        """Add the outcomes that pytest wrote to `report`; nothing if it wrote none."""
        if report.exists():
            for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - our own file
                failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
                skipped = int(suite.attrib["skipped"])
                self.failed += failed
                self.skipped += skipped
                self.passed += int(suite.attrib["tests"]) - failed - skipped

    def __str__(self) -> str:
        """Return the closing line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def _is_path(argument: str) -> bool:
    return not argument.startswith("-") and Path(argument.partition("::")[0]).exists()
