"""One line that says what a page's printouts come from."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fsdp_demo.launch.errors import SpawnError


def torch_version() -> tuple[str, str]:
    """Return torch's release and its build: "cpu", or "cu" and the CUDA version's digits.

    Read from `torch/version.py`, without the seconds that importing torch takes.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SpawnError("torch is not installed in this environment")
    facts: dict[str, object] = {}
    exec(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"), facts)  # noqa: S102  # torch's own file
    cuda = facts.get("cuda")
    build = "cpu" if cuda is None else "cu" + str(cuda).replace(".", "")
    return str(facts["__version__"]).split("+")[0], build


def describe_setting(world: int) -> None:
    """Print the torch version, its build, the backend and the world size of a page's runs.

    Example output: ``torch 2.2.2 (cu121 build), gloo on CPU, world 2``.
    """
    version, build = torch_version()
    print(f"torch {version} ({build} build), gloo on CPU, world {world}")
