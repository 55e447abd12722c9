"""The sites that several tests look at, each built once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pins.site import Outcome, Site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Outcome]:
    """Return the site of all faults, a page each, built with two processes."""
    site = Site.copy("faults", tmp_path_factory.mktemp("faults"))
    return site, site.build("-j", "2")


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Path, Path]:
    """Return one site, and what it was like built: all right, and with two cells changed."""
    folder = tmp_path_factory.mktemp("right")
    site = Site.copy("right", folder / "site")
    outcome = site.build()
    assert (outcome.status, outcome.printed) == (0, "")
    site.save(folder / "right")
    site.change("docs/lessons/1-sums.md", "total([1, 2, 3])", "total([1, 2, 4])")
    site.change("docs/lessons/1-sums.md", '"one third is"', '"a third is"')
    assert site.build().status == 1
    site.save(folder / "changed")
    return site, folder / "right", folder / "changed"


@pytest.fixture
def right(snapshots: tuple[Site, Path, Path]) -> Site:
    """Return a built site where all is right."""
    site, snapshot, _ = snapshots
    site.restore(snapshot)
    return site


@pytest.fixture
def changed(snapshots: tuple[Site, Path, Path]) -> Site:
    """Return a built site on whose first page two cells printed something else."""
    site, _, snapshot = snapshots
    site.restore(snapshot)
    return site
