"""Run `python -m fsdp_demo plan module:factory --world 8 …`."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run a command; return its exit status."""
    if arguments[:1] != ["plan"]:
        print(
            "python -m fsdp_demo: error: the only command is plan: python -m fsdp_demo plan --help",
            file=sys.stderr,
        )
        return 2
    from fsdp_demo.planner.command import main as run  # noqa: PLC0415  # it imports torch

    return run(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
