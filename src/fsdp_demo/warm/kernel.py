"""A forked process becomes the kernel that was asked for.

The warm process runs this file by its path after the fork, so it is as new as the kernel.
"""

from __future__ import annotations

import atexit
import importlib
import os
import runpy
import socket
import sys
import tempfile
import traceback
import types
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from fsdp_demo.warm.process import Request

# The ranks' server is named here for `fsdp_demo.launch.client`, as a module of this name.
HANDED_SERVER = "_fsdp_demo_handed_server"


def become_kernel(
    request: Request,
    set_by_imports: dict[str, str],
    ranks_server: Any,  # noqa: ANN401  # a module
) -> NoReturn:
    """Make this process the kernel that was asked for.

    It ends without taking torch's modules apart first, which would take longer than most cells.

    Args:
        request: what makes it the kernel of its page.
        set_by_imports: the environment variables that imports have set.
        ranks_server: the module `fsdp_demo/launch/preload.py`; None without this project.
    """
    for fd, stream in enumerate(request.streams):
        os.dup2(stream, fd)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environ | set_by_imports)
    os.environ["JPY_PARENT_PID"] = str(os.getppid())
    os.chdir(request.cwd)
    tempfile.tempdir = None
    importlib.invalidate_caches()
    draw_seeds()
    if ranks_server is not None:
        hand_over_server(ranks_server)
    sys.argv[:] = ["ipykernel_launcher", *request.arguments]
    status = 0
    try:
        runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001  # as the interpreter's own end would
        traceback.print_exc()
        status = 1
    finally:
        atexit._run_exitfuncs()  # noqa: SLF001  # as in multiprocessing's forked children
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def draw_seeds() -> None:
    """Give this process random numbers of its own, where the module doesn't see to it itself."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()


def hand_over_server(ranks_server: Any) -> None:  # noqa: ANN401  # a module
    """Fork the process that this kernel's ranks are forked from; `launch.client` takes it over."""
    handed: Any = types.ModuleType(HANDED_SERVER)
    handed.owner = os.getpid()
    handed.folder = tempfile.mkdtemp(prefix="fsdp-demo-")
    handed.noise = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the server
    handed.sock, theirs = socket.socketpair()
    handed.pid = os.fork()
    if handed.pid == 0:
        run_server(ranks_server, handed, theirs)
    theirs.close()
    sys.modules[HANDED_SERVER] = handed


def run_server(ranks_server: Any, handed: Any, theirs: socket.socket) -> NoReturn:  # noqa: ANN401  # modules
    """Be the ranks' server, in a session of its own and with streams of its own."""
    try:
        os.setsid()
        handed.sock.close()
        null = os.open(os.devnull, os.O_RDONLY)
        for source, fd in ((null, 0), (handed.noise.fileno(), 1), (handed.noise.fileno(), 2)):
            os.dup2(source, fd)
        os.close(null)
        handed.noise.close()
        os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        ranks_server.run(theirs, handed.owner, handed.folder)
    except BaseException:  # noqa: BLE001  # nothing may leave a forked child by another way
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)
