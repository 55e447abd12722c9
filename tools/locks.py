"""Read a lock (requirements/*.txt) and hold an environment against it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = "fsdp-demo"

_LIST = """
import json, importlib.metadata as m
print(json.dumps([(d.name, d.version) for d in m.distributions()]))
"""


def read_lock(lock: Path) -> dict[str, set[Version]]:
    """Return the versions that `lock` pins for each package: more than one if markers differ."""
    pins: dict[str, set[Version]] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text:
            requirement = Requirement(text)
            (specifier,) = requirement.specifier
            name = canonicalize_name(requirement.name)
            pins.setdefault(name, set()).add(Version(specifier.version))
    return pins


def list_installed(python: Path) -> dict[str, Version]:
    """Return the version of each distribution that the environment of `python` holds."""
    answer = subprocess.run([python, "-c", _LIST], capture_output=True, text=True, check=True)
    return {canonicalize_name(name): Version(text) for name, text in json.loads(answer.stdout)}


def find_unlocked(installed: dict[str, Version], pins: dict[str, set[Version]]) -> list[str]:
    """Return `name version` of what is installed without being pinned at that version.

    A build's name is no part of that: 2.2.2+cpu and 2.2.2+cu121 are both 2.2.2.
    """
    return sorted(
        f"{name} {version}"
        for name, version in installed.items()
        if name != PROJECT and Version(version.public) not in pins.get(name, set())
    )
