"""The models and steps that the instruments are tried on.

Each model's units differ in size, so that a collective's bytes alone tell whose it is.
"""

# ruff: noqa: ANN401 - options and arguments are passed on as they come

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy

from fsdp_demo import spawn

STRATEGIES = [strategy.name for strategy in ShardingStrategy]
WIDTH = 11


class Block(nn.Module):
    """Two linear layers, `WIDTH` wide outside and `inner` wide inside."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, inner, bias=False)
        self.down = nn.Linear(inner, WIDTH)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Widen or narrow, cut at zero, and back."""
        output: torch.Tensor = self.down(torch.relu(self.up(batch)))
        return output


class Model(nn.Module):
    """Three blocks of different sizes between a layer and a vector that stay with the root."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Block(3), Block(5), Block(7)])
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Run the layers in order."""
        batch = self.embed(batch)
        for block in self.blocks:
            batch = block(batch)
        return batch * self.scale


def build_model(kind: str = "plain") -> nn.Module:
    """Return a model with the same weights each time.

    `kind` is "plain", "blocks" (the root owns nothing), "shared", "frozen" (one whole unit),
    "part-frozen" (one parameter of a unit, which needs `use_orig_params=True`) or "strided" (one
    parameter lies column by column in memory).
    """
    torch.manual_seed(0)
    if kind == "blocks":
        return nn.Sequential(Block(3), Block(5), Block(7))
    model = Model()
    if kind == "shared":
        # Tied inside one unit, and in the root's.
        model.blocks[1].other = model.blocks[1].up
        model.head = model.embed
    if kind == "strided":
        model.blocks[0].up.weight = nn.Parameter(model.blocks[0].down.weight.detach().clone().T)
    if kind == "frozen":
        model.blocks[1].requires_grad_(requires_grad=False)
    if kind == "part-frozen":
        model.blocks[1].up.requires_grad_(requires_grad=False)
    return model


POLICIES: dict[str, Any] = {
    "none": None,
    "blocks": ModuleWrapPolicy({Block}),
    "checkpoints": ModuleWrapPolicy({CheckpointWrapper}),
    "size": functools.partial(size_based_auto_wrap_policy, min_num_params=20),
}


def wrap_model(
    model: nn.Module, policy: str = "blocks", strategy: str = "FULL_SHARD", **options: Any
) -> FullyShardedDataParallel:
    """Wrap for the CPU; a hybrid strategy gets a mesh of 2 by half the world."""
    world = dist.get_world_size()
    if strategy in ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"):
        options["device_mesh"] = init_device_mesh("cpu", (2, world // 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # world 1: torch says that it switches to NO_SHARD
        return FullyShardedDataParallel(
            model,
            auto_wrap_policy=POLICIES[policy],
            sharding_strategy=ShardingStrategy[strategy],
            device_id=torch.device("cpu"),
            **options,
        )


def checkpoint_blocks(model: nn.Module, *, reentrant: bool) -> nn.Module:
    """Put a checkpoint around each block."""
    impl = CheckpointImpl.REENTRANT if reentrant else CheckpointImpl.NO_REENTRANT
    for index, block in enumerate(model.blocks):
        model.blocks[index] = checkpoint_wrapper(block, checkpoint_impl=impl)
    return model


def make_batch(rank: int) -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 2 * WIDTH).reshape(2, WIDTH) * (rank + 1)


Forward = Callable[[], torch.Tensor]
Backward = Callable[[torch.Tensor], None]


def step_once(_model: nn.Module, forward: Forward, backward: Backward) -> None:
    backward(forward())


def step_twice(model: nn.Module, forward: Forward, backward: Backward) -> None:
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.01)
    for _ in range(2):
        backward(forward())
        optimizer.step()
        optimizer.zero_grad()


def forward_twice(_model: nn.Module, forward: Forward, backward: Backward) -> None:
    backward(forward() + forward())


def forward_only(_model: nn.Module, forward: Forward, _backward: Backward) -> None:
    with torch.no_grad():
        forward()


def accumulate(_model: nn.Module, forward: Forward, backward: Backward) -> None:
    for _ in range(2):
        backward(forward())


def accumulate_no_sync(
    model: FullyShardedDataParallel, forward: Forward, backward: Backward
) -> None:
    with model.no_sync():
        backward(forward())
    backward(forward())


STEPS = {
    step.__name__: step
    for step in (step_once, step_twice, forward_twice, forward_only, accumulate, accumulate_no_sync)
}


class Case(NamedTuple):
    """One program: a model, how it is wrapped, and what is run."""

    world: int = 2
    policy: str = "blocks"
    strategy: str = "FULL_SHARD"
    kind: str = "plain"
    steps: str = "step_once"
    use_orig_params: bool = False
    checkpoint: str = ""  # "reentrant" or "not"; policy "checkpoints" puts it inside of the units
    forward_prefetch: bool = False
    ignore: bool = False  # ignore the root's layer

    def __str__(self) -> str:
        """Return what differs from the default, as a test's name."""
        defaults = Case()
        fields = zip(self._fields, self, defaults, strict=True)
        changed = [f"{name}={value}" for name, value, default in fields if value != default]
        return ",".join(changed) or "default"

    def build(self) -> nn.Module:
        """Return the model, with its blocks checkpointed if the case says so."""
        model = build_model(self.kind)
        if self.checkpoint:
            checkpoint_blocks(model, reentrant=self.checkpoint == "reentrant")
        return model

    def wrap(self, model: nn.Module) -> FullyShardedDataParallel:
        """Wrap the model."""
        options: dict[str, Any] = {}
        if self.ignore:
            options["ignored_states"] = list(model.embed.parameters())
        return wrap_model(
            model,
            self.policy,
            self.strategy,
            use_orig_params=self.use_orig_params,
            forward_prefetch=self.forward_prefetch,
            **options,
        )

    def run(self, model: FullyShardedDataParallel, rank: int) -> list[torch.Tensor]:
        """Run the steps; return all outputs."""
        outputs: list[torch.Tensor] = []

        def forward() -> torch.Tensor:
            batch = make_batch(rank)
            # Reentrant checkpointing needs an input that wants a gradient.
            batch.requires_grad_(bool(self.checkpoint))
            output: torch.Tensor = model(batch)
            outputs.append(output.detach().clone())
            return output

        STEPS[self.steps](model, forward, lambda output: output.sum().backward())
        return outputs


CASES = [
    *(
        Case(world=4, policy=policy, strategy=strategy)
        for policy, strategy in itertools.product(("none", "blocks", "size"), STRATEGIES)
    ),
    *(Case(world=world, policy="size") for world in (1, 2, 3)),
    *(Case(world=1, strategy="SHARD_GRAD_OP"), Case(world=3, strategy="SHARD_GRAD_OP")),
    *(Case(kind=kind) for kind in ("blocks", "shared", "frozen", "strided")),
    *(
        Case(kind=kind, use_orig_params=True, strategy=strategy)
        for kind in ("shared", "frozen", "part-frozen")
        for strategy in ("FULL_SHARD", "SHARD_GRAD_OP")
    ),
    *(Case(world=4, strategy=strategy, use_orig_params=True) for strategy in STRATEGIES),
    *(
        Case(steps=steps, strategy=strategy, use_orig_params=original)
        for steps in STEPS
        if steps != "step_once"
        for strategy, original in (
            ("FULL_SHARD", False),
            ("SHARD_GRAD_OP", True),
            ("NO_SHARD", False),
        )
    ),
    *(
        Case(checkpoint=how, policy=policy, strategy=strategy)
        for how in ("reentrant", "not")
        for policy, strategy in (
            ("blocks", "FULL_SHARD"),
            ("blocks", "SHARD_GRAD_OP"),
            ("checkpoints", "FULL_SHARD"),
        )
    ),
    Case(forward_prefetch=True, steps="step_twice"),
    Case(ignore=True),
    Case(ignore=True, use_orig_params=True),
]


def run_ranks(worker: Callable[..., Any], world: int, *args: Any) -> list[Any]:
    """Run `worker(rank, world, *args)` on real ranks; return what each returned."""
    return spawn(worker, world, *args, timeout_s=30.0)


@contextlib.contextmanager
def be_fake_rank(rank: int, world: int) -> Iterator[None]:
    """Make this process rank `rank` of a world of torch's fake process group."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415  # slow

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()
