"""Choose where torch is installed from."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_WITHIN_S = 3.0

VARIABLE = "FSDP_DEMO_TORCH_INDEX"
"""Environment variable: the URL of another index that serves torch's CPU build, or `none`."""


def asked_index() -> str | None:
    """Return what VARIABLE asks for, None when it is unset or empty."""
    return os.environ.get(VARIABLE) or None


def choose_cpu_index() -> str | None:
    """Return the index to take torch's CPU build from; None is pip's own package index.

    Only on x86-64 Linux does the package index carry the CUDA build (5 GB installed); elsewhere it
    has the CPU build already, so there is nothing to choose.
    """
    index = asked_index()
    if index == "none":
        return None
    if index is None:
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            return None
        index = CPU_INDEX
    return index if index_answers(index) else None


def index_answers(index: str, within_s: float = ANSWER_WITHIN_S) -> bool:
    """Say whether `index` serves a page for torch within `within_s` seconds in all.

    A process of its own is asked, since a time limit of urllib's counts neither the resolving of
    the name nor each address that is tried in turn: a firewall that drops packets makes minutes.
    """
    fetch = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read(1)"
    try:
        answer = subprocess.run(
            [sys.executable, "-c", fetch, f"{index.rstrip('/')}/torch/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return answer.returncode == 0
