"""Write the Jupyter kernel of a torch environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_KERNEL = ROOT / "src" / "fsdp_demo" / "warm" / "start_kernel.py"
_ASK_BUILD = "import torch; print(torch.version.cuda or '')"


def ask_build(python: Path) -> str:
    """Return which build of torch `python` imports: "cpu", or "cu121" and the like."""
    answer = subprocess.run([python, "-c", _ASK_BUILD], capture_output=True, text=True, check=True)
    cuda = answer.stdout.strip()
    return "cu" + cuda.replace(".", "") if cuda else "cpu"


def write_kernel(environment: Path, name: str, torch: str, made_from: str) -> Path:
    """Write the kernel `name`, which runs `environment`'s Python, and return its file.

    `made_from` identifies everything the environment was made from: outputs cached under one
    value are not shown under another.
    """
    python = environment / "bin" / "python"
    spec = {
        "argv": [
            str(python),
            *("-I", "-S", str(START_KERNEL), name),  # it starts what follows, or has it forked
            # A notice about TCP would land in the first output otherwise, and a traceback on the
            # terminal when a cell runs out of time or somebody presses Ctrl-C.
            "--log-level=CRITICAL",
            "--HistoryManager.enabled=False",  # a build leaves nothing in the reader's home
            "-f",
            "{connection_file}",
        ],
        "display_name": f"Python (torch {torch})",
        "language": "python",
        # A reader's own IPython start-up files must not run in a lesson.
        "env": {"IPYTHONDIR": str(environment / "share" / "ipython")},
        "metadata": {
            "fsdp_demo": {"torch": torch, "build": ask_build(python), "made_from": made_from}
        },
    }
    file = environment / "share" / "jupyter" / "kernels" / name / "kernel.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(spec, indent=2) + "\n", encoding="utf-8")
    draft.replace(file)  # a build that runs meanwhile reads the old file or the new one
    return file
