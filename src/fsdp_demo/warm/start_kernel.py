"""Start a page's kernel: `python -I -S start_kernel.py NAME ARGUMENTS...`, from its `kernel.json`.

During a build an environment variable names the folder where the warm process of the kernel `NAME`
listens. Then this process sends it all that makes a kernel this page's: the arguments, the working
directory, the environment and the three standard streams. The warm process forks the kernel; this
one stands in for it: it passes signals on, and ends as the kernel does. When this process is
killed, so is the kernel.

Without that variable, or if the warm process can't help for whatever reason, this process becomes
the kernel that Jupyter would have started itself.

It runs in the kernel's environment, before anything is imported there: standard library only, and
of that only what is needed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from socket import socket
    from typing import NoReturn

WARM_FOLDER = "FSDP_DEMO_WARM"
STARTED, ENDED = b"s", b"e"
ANSWER_NBYTES = 5  # a letter, and the kernel's process or `os.waitpid`'s status


def main() -> None:
    """Have the kernel forked, or become it."""
    name, *arguments = sys.argv[1:]
    folder = os.environ.pop(WARM_FOLDER, None)
    if folder:
        import contextlib  # noqa: PLC0415  # not needed where there is no build

        with contextlib.suppress(OSError):  # nobody listens: the warm process has ended
            sock = connect(folder, name)
            send_request(sock, arguments)
            stand_in(sock)
    plain = [sys.executable, "-m", "ipykernel_launcher", *arguments]
    os.execv(plain[0], plain)  # noqa: S606  # no shell is wanted


def connect(folder: str, name: str) -> socket:
    """Connect to the socket `name` in `folder`, however long the folder's path is."""
    import socket  # noqa: PLC0415  # as above

    sock = socket.socket(socket.AF_UNIX)
    fd = os.open(folder, os.O_RDONLY)
    try:
        sock.connect(f"/proc/self/fd/{fd}/{name}")  # an address has room for a hundred bytes
    finally:
        os.close(fd)
    return sock


def send_request(sock: socket, arguments: list[str]) -> None:
    """Send what makes the kernel this one."""
    import marshal  # noqa: PLC0415  # as above
    import socket  # noqa: PLC0415  # as above

    # Both sides are the same Python.
    request = marshal.dumps((arguments, os.getcwd(), dict(os.environ)))  # noqa: PTH109  # pathlib is slow to import
    header = len(request).to_bytes(8, "big")
    socket.send_fds(sock, [header], [0, 1, 2])
    sock.sendall(request)


def stand_in(sock: socket) -> None:
    """Be the kernel for the process that started this one; return if none was forked."""
    import select  # noqa: PLC0415  # as above

    signals = catch_signals()
    parent = os.pidfd_open(os.getppid())
    poll = select.poll()
    for fd in (parent, signals, sock.fileno()):
        poll.register(fd, select.POLLIN)
    kernel = 0
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if parent in ready:
            os._exit(1)  # nobody is left who would end this kernel
        if sock.fileno() in ready:
            answer = sock.recv(ANSWER_NBYTES)
            if answer[:1] == ENDED:
                end_as(int.from_bytes(answer[1:], "big"))
            if answer[:1] != STARTED:
                break
            kernel = int.from_bytes(answer[1:], "big")
        if signals in ready:
            sock.sendall(os.read(signals, 256))
    if kernel:
        end_without_warm_process(kernel)


def end_without_warm_process(kernel: int) -> NoReturn:
    """End after the kernel, which ended with the warm process, and what it had started."""
    import contextlib  # noqa: PLC0415  # as above
    import signal  # noqa: PLC0415  # as above

    with contextlib.suppress(ProcessLookupError):  # it had started nothing
        os.killpg(kernel, signal.SIGKILL)
    print("The warm process that this kernel came from has ended.", file=sys.stderr)
    sys.exit(1)


def catch_signals() -> int:
    """Return a file descriptor that gives the number of each signal that is for the kernel."""
    import signal  # noqa: PLC0415  # as above

    read, write = os.pipe()
    for fd in (read, write):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(write)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    return read


def end_as(status: int) -> NoReturn:
    """End this process as the one of that `os.waitpid` status ended."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import signal  # noqa: PLC0415  # as above

        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
