"""The warm process: it imports torch once, and forks a kernel on request.

It is started by path, and knows nothing of the project: whatever it had imported of it would be
stale after the next edit. A kernel imports the project anew, after the fork.

A forked kernel is what an ordinary one would be at its first line, but for modules that are there
already. So none is forked when that isn't certain: when the request's environment differs from
this process's, which the modules may have read; when an import fails or prints something; or when
an import leaves a thread running. The kernel is then started in the ordinary way, and shows the
page whatever there is to be shown.

How a forked process becomes the kernel is in `kernel`.

When the build ends, however it ends, so does this process, with everything that came from it, and
the folder of the build's temporary files.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import marshal
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, NamedTuple

KERNEL_FILE = Path(__file__).with_name("kernel.py")
# What a kernel is made of, and what it imports while it starts.
KERNEL = ("ipykernel.kernelapp", "ipykernel.ipkernel")
USED_BY_KERNEL = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "ipykernel.debugger",
    "psutil",
    "tornado.platform.asyncio",
)
ENVIRON = {  # while it imports
    # No pool of threads, which a fork would lose. (torch starts its own when it needs it.)
    "OPENBLAS_NUM_THREADS": "1",
    # No advice to those who debug, which a kernel prints before its first cell.
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
STARTED, ENDED, REFUSED = b"s", b"e", b"r"
REQUEST_LIMIT_S = 5.0
LEAVE_LIMIT_S = 3.0
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class Request(NamedTuple):
    """What makes a kernel the one of its page."""

    arguments: list[str]
    cwd: str
    environ: dict[str, str]
    streams: list[int]  # file descriptors: stdin, stdout, stderr


def prctl(option: int, value: int) -> None:
    """Call Linux's `prctl`."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class WarmProcess:
    """The kernels that run now, each with the connection of the process that stands in for it."""

    def __init__(self, listener: socket.socket, folder: str) -> None:
        self.listener = listener
        self.folder = folder
        self.pid = os.getpid()
        self.environ = dict(os.environ)
        self.ranks_server = find_ranks_server()
        self.set_by_imports: dict[str, str] = {}
        self.is_warm: bool | None = None  # None: nobody has asked yet
        self.kernels: dict[int, socket.socket] = {}  # by the kernel's process
        self.wake_read, self.wake_write = os.pipe()
        for fd in (self.wake_read, self.wake_write):
            os.set_blocking(fd, False)

    def serve(self) -> Request:
        """Fork a kernel for each request; returns in the kernels alone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write)
        while True:
            pids = {sock.fileno(): pid for pid, sock in self.kernels.items()}
            listening = self.listener.fileno()
            ready, _, _ = select.select([listening, self.wake_read, *pids], [], [])
            if self.wake_read in ready:
                os.read(self.wake_read, 4096)
            for fd in pids.keys() & set(ready):
                self.pass_on(pids[fd])
            self.reap()
            if listening in ready:
                request = self.answer()
                if request is not None:
                    return request

    def answer(self) -> Request | None:
        """Take one request; return it in the forked kernel."""
        sock, _ = self.listener.accept()
        try:
            request = read_request(sock)
        except (OSError, EOFError, ValueError, TypeError):
            sock.close()  # whoever that was
            return None
        if self.is_warm is None:
            self.is_warm = self.warm_up()
        try:
            if not (self.is_warm and request.environ == self.environ):
                sock.sendall(REFUSED + bytes(4))
                sock.close()
                return None
            pid = os.fork()
            if pid == 0:
                sock.close()
                return request
            self.kernels[pid] = sock
            sock.sendall(STARTED + pid.to_bytes(4, "big"))
        except OSError:  # it has gone already, or there is no room for another process
            sock.close()
        finally:
            if os.getpid() == self.pid:
                for fd in request.streams:
                    os.close(fd)
        return None

    def warm_up(self) -> bool:
        """Import everything; return whether kernels can be forked from what this process is now."""
        os.environ |= ENVIRON
        # ipykernel reads whose child it is when it is imported.
        os.environ["JPY_PARENT_PID"] = str(self.pid)
        before = dict(os.environ)
        tempfile.tempdir = self.folder  # torch makes a folder when it is imported
        gc.disable()  # an import makes little garbage, and looking for it takes a sixth of the time
        try:
            ranks_server = load(self.ranks_server) if self.ranks_server else None
            for name in (*(ranks_server.PRELOADED if ranks_server else ()), *KERNEL):
                importlib.import_module(name)
            for name in USED_BY_KERNEL:
                with contextlib.suppress(ImportError):  # another version does without
                    importlib.import_module(name)
        except BaseException:  # noqa: BLE001  # the page's own import shows what it is
            return False
        if os.fstat(1).st_size or len(list(Path("/proc/self/task").iterdir())) > 1:
            return False
        # What imports set, they would have set in an ordinary kernel too.
        self.set_by_imports = dict(os.environ.items() - before.items())
        keep_folders()
        gc.collect()
        gc.enable()
        gc.freeze()  # a collection in a kernel or rank would write to, and copy, every page of it
        if ranks_server:
            ranks_server.gather_pages()
        return True

    def pass_on(self, pid: int) -> None:
        """Pass signals on to a kernel's process group; end it if whoever asked for it has gone."""
        sock = self.kernels[pid]
        try:
            signums = sock.recv(256)
        except OSError:
            signums = b""
        for signum in signums or (signal.SIGKILL,):
            send_signal(pid, signum)
        if not signums:
            self.kernels.pop(pid).close()

    def reap(self) -> None:
        """Collect ended children, and tell of each that was a kernel."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            sock = self.kernels.pop(pid, None)
            if sock is not None:
                with contextlib.suppress(OSError):  # what it left running
                    os.killpg(pid, signal.SIGKILL)
                with contextlib.suppress(OSError), sock:
                    sock.sendall(ENDED + status.to_bytes(4, "big"))

    def leave(self) -> None:
        """End everything that came from this process, then itself."""
        if os.getpid() != self.pid:
            return  # a kernel that isn't quite one yet
        for pid in self.kernels:
            send_signal(pid, signal.SIGKILL)
        # A kernel's ranks end with it, in their server's hands; what outlives its parent becomes
        # this process's child.
        begin = time.monotonic()
        with contextlib.suppress(ChildProcessError):
            while (waited_s := time.monotonic() - begin) < 2 * LEAVE_LIMIT_S:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    if waited_s > LEAVE_LIMIT_S:
                        kill_children()
                    time.sleep(0.005)
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)

    def let_go(self) -> None:
        """In a forked kernel: let go of what is the warm process's."""
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.pid:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for sock in (self.listener, *self.kernels.values()):
            sock.close()
        os.close(self.wake_read)
        os.close(self.wake_write)


def read_request(sock: socket.socket) -> Request:
    """Read a request as `start_kernel.send_request` sends it."""
    sock.settimeout(REQUEST_LIMIT_S)
    header, streams, _, _ = socket.recv_fds(sock, 8, 3)
    if len(header) < 8 or len(streams) != 3:  # noqa: PLR2004  # the length's own bytes; the streams
        raise EOFError
    blob = bytearray()
    while len(blob) < int.from_bytes(header, "big"):
        chunk = sock.recv(1 << 20)
        if not chunk:
            raise EOFError
        blob += chunk
    sock.settimeout(None)
    arguments, cwd, environ = marshal.loads(blob)  # noqa: S302  # in a folder that is ours alone
    environ.pop("JPY_PARENT_PID", None)
    return Request(arguments, cwd, environ, streams)


def send_signal(pid: int, signum: int) -> None:
    """Signal a kernel that nobody has collected yet, and all of its process group."""
    with contextlib.suppress(OSError):
        try:
            os.killpg(pid, signum)
        except ProcessLookupError:  # it leads none yet
            os.kill(pid, signum)


def find_ranks_server() -> Path | None:
    """Return the file of the process that ranks are forked from; None without this project."""
    spec = importlib.util.find_spec("fsdp_demo")  # this imports nothing
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "launch" / "preload.py"


def load(file: Path) -> Any:  # noqa: ANN401  # a module
    """Run a module's file as it is now; the module is nobody else's."""
    spec = importlib.util.spec_from_file_location(f"_fsdp_demo_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keep_folders() -> None:
    """Leave temporary folders of imported modules to this process, which goes last.

    torch's would go with the first kernel otherwise.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # noqa: SLF001  # there is no other list
        alive = finalizer.peek()
        if alive and isinstance(alive[0], tempfile.TemporaryDirectory):
            finalizer.atexit = False


def kill_children() -> None:
    """Kill all children of this process."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    for pid in text.split():
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)


def main() -> None:
    """Serve until the build ends; in a forked process, become a kernel."""
    # Started by path, but this file's folder is no place to import from.
    del sys.path[0]
    os.environ.pop("JPY_PARENT_PID", None)
    listener, folder, parent = socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3]
    warm = WarmProcess(listener, folder)
    signal.signal(signal.SIGTERM, lambda *_: warm.leave())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for Sphinx, which then ends this
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        warm.leave()
    request = warm.serve()  # it returns in forked processes alone
    warm.let_go()
    ranks_server = load(warm.ranks_server) if warm.ranks_server else None
    load(KERNEL_FILE).become_kernel(request, warm.set_by_imports, ranks_server)


if __name__ == "__main__":
    main()
