"""A warm process of the installed torch, and kernels that ask it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from fsdp_demo.warm.extension import start_process
from fsdp_demo.warm.start_kernel import WARM_FOLDER

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from jupyter_client.blocking.client import BlockingKernelClient

ROOT = Path(__file__).parents[2]
ENVIRONMENT = min((ROOT / ".envs").glob("torch-*/"))  # `nox -s tests` makes it
KERNEL = ENVIRONMENT.name
SPECS = KernelSpecManager(kernel_dirs=[str(ENVIRONMENT / "share" / "jupyter" / "kernels")])


@dataclass
class Kernel:
    """A running kernel, and the process that Jupyter takes for it."""

    manager: KernelManager
    client: BlockingKernelClient
    process: subprocess.Popen[bytes]

    def run(self, source: str) -> str:
        """Run a cell; return what it printed, or its error's last line."""
        printed = []

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] == "error":
                printed.append(f"{content['ename']}: {content['evalue']}")

        self.client.execute_interactive(source, timeout=60, output_hook=take)
        return "".join(printed)

    @property
    def pid(self) -> int:
        """The kernel's own process."""
        return int(self.run("import os; print(os.getpid())"))


@dataclass
class Warm:
    """A warm process, and the environment of those that ask it."""

    process: subprocess.Popen[bytes]
    folder: Path
    environ: dict[str, str]

    @contextlib.contextmanager
    def kernel(self, **environ: str) -> Iterator[Kernel]:
        """Start a kernel that asks it."""
        with start_kernel({**self.environ, WARM_FOLDER: str(self.folder), **environ}) as kernel:
            yield kernel

    @contextlib.contextmanager
    def plain_kernel(self) -> Iterator[Kernel]:
        """Start one that asks nobody, in the same environment."""
        with start_kernel(self.environ) as kernel:
            yield kernel


@contextlib.contextmanager
def start_kernel(environ: dict[str, str]) -> Iterator[Kernel]:
    """Start a kernel the way a build does; at the end it must leave when asked to."""
    manager = KernelManager(kernel_name=KERNEL, kernel_spec_manager=SPECS)
    manager.start_kernel(env=dict(environ), cwd=environ["TMPDIR"])
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        assert isinstance(manager.provisioner, LocalProvisioner)
        assert manager.provisioner.process is not None
        yield Kernel(manager, client, manager.provisioner.process)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


@contextlib.contextmanager
def start_warm(**environ: str) -> Iterator[Warm]:
    """Start a warm process; at the end nothing of it may be left."""
    folder = Path(tempfile.mkdtemp(prefix="warm-", dir="/tmp"))
    for name in ("build", "temporary"):
        (folder / name).mkdir()
    spec = json.loads(Path(SPECS.get_kernel_spec(KERNEL).resource_dir, "kernel.json").read_text())
    base = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "JPY_PARENT_PID")}
    base |= {"TMPDIR": str(folder / "temporary"), **environ}
    process = start_process(str(folder / "build"), KERNEL, spec, base)
    try:
        yield Warm(process, folder / "build", base)
        process.terminate()
        process.wait(10)
        assert not (folder / "build").exists()
        assert list((folder / "temporary").iterdir()) == []
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Return a warm process that no test harms."""
    with start_warm() as process:
        yield process
