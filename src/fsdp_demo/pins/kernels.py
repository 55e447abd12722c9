"""The kernels that pages can choose, and what torch each of them says it runs on."""

from __future__ import annotations

from typing import Any

from jupyter_client.kernelspec import KernelSpecManager

from fsdp_demo.pins.cells import Setting

DEFAULT_KERNEL = "python3"
"""What Jupyter runs for a page that names no kernel."""


def find_kernels() -> dict[str, Setting | None]:
    """Return the installed kernels by name, each with its setting.

    A kernel says what it runs on in its kernel.json:
    ``"metadata": {"fsdp_demo": {"torch": "2.2.2", "build": "cu121"}}``.  One that doesn't, such
    as ``python3``, has the setting None.
    """
    specs: dict[str, Any] = KernelSpecManager().get_all_specs()
    return {name: _read_setting(spec["spec"]) for name, spec in sorted(specs.items())}


def _read_setting(spec: dict[str, Any]) -> Setting | None:
    match spec.get("metadata"):
        case {"fsdp_demo": {"torch": str(torch), "build": str(build)}}:
            return Setting(torch, build)
        case _:
            return None
