"""In a notebook's kernel the fork server starts with the first import of this package.

It imports torch beside the kernel, which has its own imports to do, and is ready by the first
`spawn`.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from fsdp_demo.launch.errors import SpawnError


def start_in_kernel() -> None:
    """Start the server if this process is a kernel; elsewhere, say in a rank, do nothing."""
    kernel_app: Any = sys.modules.get("ipykernel.kernelapp")
    if kernel_app is None or not kernel_app.IPKernelApp.initialized():
        return
    from fsdp_demo.launch.client import start_server  # noqa: PLC0415  # as in `spawn`

    with contextlib.suppress(SpawnError):  # `spawn` will try again, and say what is wrong
        start_server()
