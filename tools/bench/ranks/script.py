"""The cell as a script of its own, started by `torch.multiprocessing.spawn`.

python -m tools.bench.ranks.script WORLD FOLDER [weigh]
"""

from __future__ import annotations

import os
import sys

import torch.multiprocessing as mp

from tools.bench.ranks.cell import leave, run_alone


def be_rank(rank: int, world: int, folder: str, weigh: bool) -> None:  # noqa: FBT001  # mp.spawn's form
    """Run the cell as one rank."""
    run_alone(rank, world, folder, weigh=weigh)
    leave()


if __name__ == "__main__":
    folder, weigh = sys.argv[2], "weigh" in sys.argv
    if "RANK" in os.environ:  # torchrun has started the ranks
        be_rank(int(os.environ["RANK"]), int(sys.argv[1]), folder, weigh)
    mp.spawn(be_rank, (int(sys.argv[1]), folder, weigh), nprocs=int(sys.argv[1]))  # type: ignore[attr-defined,no-untyped-call]
