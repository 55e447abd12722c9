"""A run's figures as a table to read, and as JSON for the page that shows them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict
from typing import TYPE_CHECKING

from tools.bench.figures import Figure, Missing, show, show_spread
from tools.bench.processes import make_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ASK = """
import json, platform, torch
from importlib import metadata
from fsdp_demo.launch.setting import torch_version
version, build = torch_version()
try:
    accelerate = metadata.version("accelerate")
except metadata.PackageNotFoundError:
    accelerate = "not there"
print(json.dumps({"torch": version, "build": build, "accelerate": accelerate,
                  "python": platform.python_version()}))
"""


def describe_setting(python: str) -> dict[str, str]:
    """Return what the figures are measured on; nothing of it names the machine."""
    command = [python, "-c", _ASK]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=make_environment()
    )
    setting: dict[str, str] = json.loads(answer.stdout)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # Others' work slows everything down: whoever reads the figures has to know of it.
    load = f"{os.getloadavg()[0]:.1f}"
    return setting | {"system": platform.system(), "cores": str(cores), "load-before": load}


def write_json(setting: dict[str, str], figures: Sequence[Figure | Missing]) -> str:
    """Return a run as JSON: every figure by its name, in the order of the run."""
    content: dict[str, dict[str, object]] = {"measured-on": dict(setting), "figures": {}}
    missing: dict[str, object] = {}
    for figure in figures:
        if isinstance(figure, Missing):
            missing[figure.name] = {"what": figure.what, "reason": figure.reason}
        else:
            fields = {
                key: round(value, 6) if isinstance(value, float) else value
                for key, value in asdict(figure).items()
                if key != "name" and value is not None
            }
            content["figures"][figure.name] = fields
    return json.dumps(content | {"missing": missing}, indent=2) + "\n"


def list_lines(figures: Sequence[Figure | Missing]) -> Iterator[str]:
    """Yield the lines of the table, then one for each figure that is missing."""
    measured = [figure for figure in figures if isinstance(figure, Figure)]
    width = max((len(figure.what) for figure in measured), default=0)
    for figure in measured:
        bar = "" if figure.at_most is None else f"at most {show(figure.at_most, figure.unit)}"
        verdict = {True: "met", False: "NOT MET", None: ""}[figure.is_met]
        yield (
            f"{figure.what:{width}}  {show(figure.value, figure.unit):>9}"
            f"  {_tell_spread(figure):>19}  {bar:>15}  {verdict}"
        ).rstrip()
    for gap in figures:
        if isinstance(gap, Missing):
            yield f"NOT MEASURED: {gap.what}: {gap.reason}"


def _tell_spread(figure: Figure) -> str:
    if figure.least is None or figure.most is None or figure.rounds == 1:
        return ""
    return f"{show_spread(figure.least, figure.most)} ({figure.rounds})"
