"""Kernels that start warm: a build imports torch once, however many pages it runs.

Each page has a kernel of its own, and each kernel a process that forks its ranks. Started one by
one, each of these would import torch anew, two seconds each. So a build keeps one *warm process* a
torch version, which has imported torch and what a kernel is made of, and nothing of this project:

- `extension`, in Sphinx, starts it and ends it with the build;
- `start_kernel`, which a kernel's `kernel.json` names, asks it for a kernel, and starts an ordinary
  one where there is none to ask, as in JupyterLab;
- `provisioner` has them talk over files' sockets, since a free port may be taken a moment later;
- `process` is the warm process: it imports at the first request, and forks;
- `kernel` makes a forked process the kernel that was asked for.

What a page prints is the same either way. Linux only: elsewhere every kernel is an ordinary one.
"""

from fsdp_demo.warm.extension import setup

__all__ = ["setup"]
