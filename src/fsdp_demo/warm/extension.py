"""The Sphinx extension: a warm process for each kernel that can use one, as long as the build.

It costs a build that runs no page next to nothing: the warm process imports when it is first asked.

All that a build writes to temporary places lies in one folder, with the sockets. The warm process
removes it even when Sphinx is killed.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from fsdp_demo.warm import provisioner
from fsdp_demo.warm.start_kernel import WARM_FOLDER

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

START_KERNEL = Path(__file__).with_name("start_kernel.py")
PROCESS = Path(__file__).with_name("process.py")
LEAVE_LIMIT_S = 8.0
PR_SET_PDEATHSIG = 1


def setup(app: Sphinx) -> dict[str, Any]:
    """Start the warm processes just before pages are read."""
    app.connect("env-before-read-docs", start)
    app.connect("build-finished", end_readers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def start(_app: Sphinx, _env: BuildEnvironment, docnames: list[str]) -> None:
    """Start them, if this system can have them and there is a page to read."""
    if not docnames or WARM_FOLDER in os.environ or not has_pidfd():
        return
    kernels = find_kernels()
    if not kernels:
        return
    folder = tempfile.mkdtemp(prefix="fsdp-demo-build-")
    os.environ |= {
        "TMPDIR": folder,
        "JUPYTER_RUNTIME_DIR": folder,  # for the kernels' connection files
        WARM_FOLDER: folder,
    }
    tempfile.tempdir = None  # Python chooses again
    KernelProvisionerFactory.instance().default_provisioner_name = provisioner.NAME
    environ = dict(os.environ)
    processes = [start_process(folder, name, spec, environ) for name, spec in kernels.items()]
    atexit.register(end, processes, folder, os.getpid())
    os.register_at_fork(after_in_child=end_with_parent)


def find_kernels() -> dict[str, dict[str, Any]]:
    """Return the specs of the kernels that ask for a warm process, by name."""
    specs: dict[str, Any] = KernelSpecManager().get_all_specs()
    found = {name: kernel["spec"] for name, kernel in specs.items()}
    return {name: spec for name, spec in found.items() if str(START_KERNEL) in spec["argv"]}


def has_pidfd() -> bool:
    """Return whether the system tells when any process ends: Linux does."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def start_process(
    folder: str, name: str, spec: dict[str, Any], environ: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start the warm process of the kernel `name`, for kernels in the environment `environ`.

    It listens already: a request that comes before it is ready waits.
    """
    environ = {**environ, **spec.get("env", {})}
    environ.pop(WARM_FOLDER, None)
    with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryFile() as noise:
        fd = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{fd}/{name}")  # as in start_kernel.connect
        os.close(fd)
        listener.listen()
        arguments = (str(listener.fileno()), folder, str(os.getpid()))
        return subprocess.Popen(
            [spec["argv"][0], str(PROCESS), *arguments],
            env=environ,
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=noise,
            stderr=noise,
            start_new_session=True,
        )


def end(processes: list[subprocess.Popen[bytes]], folder: str, owner: int) -> None:
    """End them and all that came from them, and remove the folder."""
    if os.getpid() != owner:
        return
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(LEAVE_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def end_readers(_app: Sphinx, error: Exception | None) -> None:
    """After a crash in one of them, end the processes that still read pages.

    Sphinx has sent them SIGTERM. While cells run nbclient takes that to end their kernel alone;
    such a process would read on and then hand its pages to nobody, and Sphinx wait for it forever.
    """
    if error is not None:
        for reader in multiprocessing.active_children():
            reader.kill()


def end_with_parent() -> None:
    """In a process that reads pages: end when Sphinx is killed, and run no page after that."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
