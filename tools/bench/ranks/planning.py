"""Time plans of large models on the meta device, and weigh them.

    python -m tools.bench.ranks.planning ROUNDS

Prints the seconds of each plan, by name, and the peak of this process's memory in bytes beyond what
torch itself takes, as JSON.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections import defaultdict
from typing import Any

import torch
import torch.distributed.fsdp
from torch import nn
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

WORLDS = (8, 1024)


class Attention(nn.Module):
    """Attention with all its heads in four square weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend to every position."""
        batch, length, width = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        output: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return output


class Block(nn.Module):
    """One layer of the decoder, with a gated feed-forward."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, then feed forward."""
        x = x + self.attention(self.attention_norm(x))
        y = self.norm(x)
        output: torch.Tensor = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return output


class Decoder(nn.Module):
    """A decoder of about seven billion parameters."""

    def __init__(self) -> None:
        super().__init__()
        width = 4096
        self.embed = nn.Embedding(32000, width)
        self.blocks = nn.ModuleList(Block(width, 32, 11008) for _ in range(32))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 32000, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next token."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


def make_tree() -> nn.Module:
    """Return a model of 10,001 modules in 2,000 groups below a root."""
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Identity())
            for _ in range(2000)
        )
    )


def read_peak_nbytes() -> int:
    """Return the most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def measure(rounds: int) -> dict[str, Any]:
    """Plan in turns, and return seconds and bytes."""
    torch_nbytes = read_peak_nbytes()
    from fsdp_demo import plan  # noqa: PLC0415  # it counts

    with torch.device("meta"):
        decoder, tree = Decoder(), make_tree()
        tokens = torch.ones(1, 128, dtype=torch.long)
    seconds = defaultdict(list)
    for _ in range(rounds):
        for world in WORLDS:
            for name, example in (("", None), ("-example", tokens)):
                gc.collect()  # what the plan before has left is not this one's to clear
                start = time.perf_counter()
                plan(decoder, world=world, policy=ModuleWrapPolicy({Block}), example=example)
                seconds[f"{world}{name}"].append(time.perf_counter() - start)
    peak_nbytes = read_peak_nbytes() - torch_nbytes
    units = {}
    for name, policy in (("tree", None), ("tree-units", ModuleWrapPolicy({nn.Sequential}))):
        start = time.perf_counter()
        planned = plan(tree, world=WORLDS[-1], policy=policy)
        seconds[name].append(time.perf_counter() - start)
        units[name] = len(planned.units)
    return {
        "seconds": dict(seconds),
        "nbytes": peak_nbytes,
        "numel": sum(parameter.numel() for parameter in decoder.parameters()),
        "units": units,
        "modules": len(list(tree.modules())),
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
