"""How a build starts its kernels: they talk over files' sockets, not over ports.

A port that Jupyter found free is another's when the kernel binds it a moment later: another
reader's kernel may have found the same, and a rank's connection may be given it. A busy build saw
"Address already in use", and lost a page. A file's name is nobody else's.

Only a build names this one as Jupyter's default; elsewhere kernels start as Jupyter starts them.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from fsdp_demo.warm.start_kernel import WARM_FOLDER

NAME = "fsdp-demo-build"
LONGEST_ADDRESS = 104  # the system has room for 107 bytes, and "-5" comes after this

_numbers = itertools.count()


class BuildProvisioner(LocalProvisioner):
    """Jupyter's own way of starting a kernel, on sockets in the build's folder."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401  # Jupyter's own
        """Choose where the kernel listens; a folder with too long a path leaves it to Jupyter."""
        address = choose_address(os.environ.get(WARM_FOLDER))
        if address is not None and self.parent is not None:
            self.parent.transport, self.parent.ip = "ipc", address
        launched: dict[str, Any] = await super().pre_launch(**kwargs)
        return launched


def choose_address(folder: str | None) -> str | None:
    """Return the start of a new kernel's sockets' names, if there is a folder for them."""
    if folder is None:
        return None
    address = str(Path(folder, f"k{os.getpid()}-{next(_numbers)}"))
    return address if len(os.fsencode(address)) <= LONGEST_ADDRESS else None
