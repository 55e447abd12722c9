"""Models made from a description, so that hypothesis can draw them and print them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
)


@dataclass(frozen=True)
class Weight:
    """A parameter."""

    shape: tuple[int, ...] = (3,)
    frozen: bool = False
    dtype: str = "float32"
    used: bool = True


@dataclass(frozen=True)
class Node:
    """A module: its class, its parameters, its children and what its forward does with them.

    `order` holds the children's indices as the forward runs them (None: as registered, once),
    `first` whether its own parameters come before the children, `same` whether it may return a
    child's output as it is, `drop` whether its first child's output is not used, `tied` the number
    of an earlier parameter of the model that it has too, `pair` whether it returns two tensors.
    """

    kind: str = "A"
    weights: tuple[Weight, ...] = ()
    children: tuple[Node, ...] = ()
    order: tuple[int, ...] | None = None
    first: bool = False
    same: bool = False
    detach: bool = False
    drop: bool = False
    batch_norm: bool = False
    checkpoint: str = ""
    tied: int | None = None
    pair: bool = False


class A(nn.Module):
    """A module made from a `Node`."""

    def __init__(self, node: Node, pool: list[nn.Parameter]) -> None:
        super().__init__()
        self.node = node
        self.mine = []
        for index, weight in enumerate(node.weights):
            value = torch.ones(weight.shape, dtype=getattr(torch, weight.dtype))
            parameter = nn.Parameter(value, requires_grad=not weight.frozen)
            self.register_parameter(f"w{index}", parameter)
            pool.append(parameter)
            if weight.used:
                self.mine.append(f"w{index}")
        if node.tied is not None and pool:
            self.tied = pool[node.tied % len(pool)]
            self.mine.append("tied")
        self.below = nn.ModuleList(build(child, pool) for child in node.children)
        if node.batch_norm:
            self.norm = nn.BatchNorm1d(2)

    def use_own(self, value: torch.Tensor) -> torch.Tensor:
        """Use the parameters that are used."""
        for name in self.mine:
            value = value * getattr(self, name).sum().to(value.dtype)
        return value

    def forward(self, value: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Do what the node says."""
        node = self.node
        if node.first:
            value = self.use_own(value)
        order = range(len(node.children)) if node.order is None else node.order
        for position, index in enumerate(order):
            output = self.below[index](value)
            if node.drop and position == 0:
                continue
            value = output
            if isinstance(value, tuple):
                value = value[0] + value[1]
        if node.batch_norm:
            value = self.norm(value)
        if not node.first:
            value = self.use_own(value)
        if node.detach:
            value = value.detach()
        if not node.same:
            value = value * 1.0
        return (value, value * 2.0) if node.pair else value


class B(A):
    """Another class, for policies to choose."""


class C(A):
    """A third."""


CLASSES = {"A": A, "B": B, "C": C}


def build(node: Node, pool: list[nn.Parameter] | None = None) -> nn.Module:
    """Build the module; `pool` collects parameters, for others to tie to."""
    pool = [] if pool is None else pool
    module = CLASSES[node.kind](node, pool)
    if not node.checkpoint:
        return module
    impl = (
        CheckpointImpl.REENTRANT if node.checkpoint == "reentrant" else CheckpointImpl.NO_REENTRANT
    )
    return checkpoint_wrapper(module, checkpoint_impl=impl)


def make_plain(node: Node) -> Node:
    """Return the node with a forward that the planner assumes without an example."""
    return dataclasses.replace(
        node,
        children=tuple(make_plain(child) for child in node.children),
        order=None,
        first=False,
        same=False,
        detach=False,
        drop=False,
        pair=False,
        weights=tuple(dataclasses.replace(weight, used=True) for weight in node.weights),
    )


def count_nodes(node: Node) -> int:
    return 1 + sum(count_nodes(child) for child in node.children)


@dataclass(frozen=True)
class Case:
    """A model, how FSDP wraps it, and what is run."""

    root: Node
    world: int = 2
    rank: int = 0
    mesh: tuple[int, int] | None = None
    strategy: str = "FULL_SHARD"
    policy: tuple[Any, ...] = ("none",)
    use_orig_params: bool = False
    param_dtype: str | None = None
    reduce_dtype: str | None = None
    keep_low: bool = False
    prefetch: str | None = "BACKWARD_PRE"
    forward_prefetch: bool = False
    ignore: tuple[str, ...] = ()
    ignore_modules: bool = False
    input_grad: bool = False
    example: bool = True
    steps: dict[str, Any] = field(default_factory=dict)
