"""What a plan says of the course's programs, and what it refuses."""

# ruff: noqa: SLF001 - a module's hooks are private

from __future__ import annotations

import functools
import subprocess
import sys
import tracemalloc

import pytest
import torch
from torch import nn
from torch.distributed.fsdp.wrap import CustomPolicy, ModuleWrapPolicy, size_based_auto_wrap_policy

from fsdp_demo.planner import Plan, PlanError, plan
from fsdp_demo.records import ParameterSlice


class Block(nn.Module):
    """Two layers with nothing to learn between them."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(6, 6, bias=False)
        self.two = nn.Linear(6, 6, bias=False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Run both."""
        result: torch.Tensor = self.two(torch.relu(self.one(batch)))
        return result


class Branch(nn.Module):
    """A forward that leaves out a block, unless its input says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.left = Block()
        self.right = Block()

    def forward(self, batch: torch.Tensor, *, both: bool = False) -> torch.Tensor:
        """Run the right block, and the left one if told to."""
        batch = self.right(batch)
        if both:
            batch = self.left(batch)
        return batch


class Choice(Branch):
    """A forward that runs one of them, by the numbers of its input."""

    def forward(self, batch: torch.Tensor, *, both: bool = False) -> torch.Tensor:  # noqa: ARG002
        """Run the left block or the right one."""
        block = self.left if batch.sum() > 0 else self.right
        result: torch.Tensor = block(batch)
        return result


def three_blocks() -> nn.Sequential:
    return nn.Sequential(Block(), Block(), Block())


def test_nine_parameters_over_four_ranks() -> None:
    """Three numbers on each rank, and three of padding, all on the last."""
    planned = plan(nn.Sequential(nn.Linear(3, 3, bias=False)), world=4)
    flat = planned.units[0].flat_parameter
    assert flat is not None
    assert (flat.numel, flat.numel_padded, flat.shard_numel) == (9, 12, 3)
    assert planned.shard("", 1).slices == (ParameterSlice("0.weight", (3, 3), 3, 6, 0),)
    assert planned.shard("", 3).slices == ()
    assert planned.shard("", 3).padding == ((0, 3),)


@pytest.mark.parametrize(
    ("strategy", "gathers", "reductions"),
    [
        ("FULL_SHARD", (3, 3), (3, 0)),
        ("SHARD_GRAD_OP", (3, 0), (3, 0)),
        ("NO_SHARD", (0, 0), (0, 3)),
    ],
)
def test_strategy_dial(
    strategy: str, gathers: tuple[int, int], reductions: tuple[int, int]
) -> None:
    """Three blocks, a unit each: what each strategy issues in a step."""
    planned = plan(three_blocks(), world=4, policy=ModuleWrapPolicy({Block}), strategy=strategy)
    assert (
        planned.count("all-gather", "forward"),
        planned.count("all-gather", "backward"),
    ) == gathers
    assert (planned.count("reduce-scatter"), planned.count("all-reduce")) == reductions


def test_peaks_hold_two_units_in_the_backward() -> None:
    """One unit in the forward; in the backward the next is gathered before this one is freed."""
    planned = plan(three_blocks(), world=4, policy=ModuleWrapPolicy({Block}))
    assert planned.peak_nbytes("forward") == 72 * 4
    assert planned.peak_nbytes("backward") == 2 * 72 * 4
    event = planned.peak_event("backward")
    assert event is not None
    assert event.unsharded == ("1", "2")
    assert planned.rest_nbytes == 3 * 72 * 4 // 4


def test_root_is_not_freed() -> None:
    """With no policy, one gather serves forward and backward."""
    planned = plan(three_blocks(), world=4)
    assert planned.count("all-gather") == 1


def test_bytes_received() -> None:
    """Of four ranks: three shards for a gather, as much for a reduction, both for an all-reduce."""
    model = nn.Linear(4, 4, bias=False)
    assert plan(model, world=4).received_nbytes == 48 + 48
    assert plan(model, world=4, strategy="NO_SHARD").received_nbytes == 96


def test_example_runs_the_forward() -> None:
    """What a forward leaves out is left out of the plan; without an example, a note says so."""
    policy = ModuleWrapPolicy({Block})
    seen = plan(Branch(), world=2, policy=policy, example=torch.ones(2, 6))
    assert {c.unit for c in seen.collectives or ()} == {"right"}
    assert not seen.assumed
    assert not any("assumed" in note for note in seen.notes)
    both = plan(Branch(), world=2, policy=policy, example={"batch": torch.ones(2, 6), "both": True})
    assert [c.unit for c in both.collectives or ()][:2] == ["right", "left"]
    assumed = plan(Branch(), world=2, policy=policy)
    assert [c.unit for c in assumed.collectives or ()][:2] == ["left", "right"]
    assert assumed.assumed
    assert any("assumed" in note for note in assumed.notes)


def test_what_depends_on_numbers_is_unknown() -> None:
    """Control flow on a tensor's numbers can't be followed: no figure is made up."""
    planned = plan(Choice(), world=2, policy=ModuleWrapPolicy({Block}), example=torch.ones(2, 6))
    assert planned.collectives is None
    assert planned.memory is None
    assert "can't be run on the meta device: it reads the numbers" in (planned.unknown or "")
    assert len((planned.unknown or "").splitlines()) == 1
    assert len(planned.units) == 3
    assert "unknown" in str(planned)


def test_model_is_left_as_it_was() -> None:
    """Its modules, parameters, hooks and numbers."""
    model = three_blocks()
    before = {name: (id(p), p.detach().clone()) for name, p in model.named_parameters()}
    modules = [id(module) for module in model.modules()]
    plan(model, world=4, policy=ModuleWrapPolicy({Block}), example=torch.ones(2, 6))
    assert [id(module) for module in model.modules()] == modules
    for name, parameter in model.named_parameters():
        assert id(parameter) == before[name][0]
        assert torch.equal(parameter, before[name][1])
        assert parameter.grad is None
    hooks = [(m._forward_pre_hooks, m._forward_hooks) for m in model.modules()]
    assert not any(map(any, hooks))


def test_policy_that_asks_for_a_module_of_the_model() -> None:
    """A `CustomPolicy` sees the caller's own modules, not the planner's copies."""
    model = three_blocks()
    planned = plan(model, world=2, policy=CustomPolicy(lambda module: module is model[1]))
    assert [unit.name for unit in planned.units] == ["", "1"]


def test_policy_that_matches_nothing() -> None:
    """Torch wraps the root alone and says nothing; the plan says it."""
    planned = plan(three_blocks(), world=2, policy=ModuleWrapPolicy({nn.Conv2d}))
    assert any("matches no module" in note for note in planned.notes)


def test_rows_of_ranks_as_a_mesh() -> None:
    """A mesh may be written out, in any order of ranks."""
    rows = [[0, 2], [3, 1]]
    planned = plan(three_blocks(), world=4, rank=1, mesh=rows, strategy="HYBRID_SHARD")
    assert planned.units[0].ranks == (3, 1)
    assert planned.units[0].replica_ranks == (2, 1)
    assert planned.shard("", 1).start == planned.units[0].flat_parameter.shard_numel  # type: ignore[union-attr]


def frozen() -> nn.Module:
    model = three_blocks()
    model.get_parameter("1.one.weight").requires_grad = False
    return model


def two_dtypes() -> nn.Module:
    model = three_blocks()
    model.get_submodule("1.one").to(torch.bfloat16)
    return model


def integers() -> nn.Module:
    model = nn.Linear(2, 2)
    model.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.int32), requires_grad=False)
    model.bias.requires_grad = False
    return model


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (frozen, {}, ("unit (root)", "uniform `requires_grad`", "1.one.weight", "use_orig_params")),
        (frozen, {"policy": ModuleWrapPolicy({Block})}, ("1 has both", "use_orig_params=True")),
        (two_dtypes, {}, ("unit (root)", "uniform dtype", "1.one.weight bfloat16", "policy")),
        (integers, {}, ("unit (root)", "integer dtype", "weight is int32", "ignored_states")),
        (three_blocks, {"world": 0}, ("world of 0",)),
        (three_blocks, {"rank": 2}, ("rank 2", "0 to 1")),
        (three_blocks, {"mesh": (3, 2)}, ("3 x 2", "6 ranks", "world 2")),
        (three_blocks, {"mesh": [[0, 0]]}, ("each rank",)),
        (three_blocks, {"mesh": [[0], [1, 2]]}, ("equally long",)),
        (three_blocks, {"strategy": "HYBRID_SHARD"}, ("mesh=(replicas, shards)",)),
        (three_blocks, {"strategy": "ZERO3"}, ("ZERO3", "FULL_SHARD")),
        (three_blocks, {"steps": 0}, ("steps=0",)),
        (
            three_blocks,
            {"ignored_states": [nn.Linear(1, 1), nn.Parameter(torch.ones(1))]},
            ("all nn.Parameter or all nn.Module",),
        ),
        (three_blocks, {"ignored_states": [], "ignored_modules": []}, ("Cannot pass both",)),
        (
            three_blocks,
            {
                "policy": CustomPolicy(
                    lambda m: {"device_mesh": 1} if isinstance(m, Block) else False
                )
            },
            ("unit 0", "device_mesh"),
        ),
        (
            three_blocks,
            {
                "policy": CustomPolicy(
                    lambda m: {"use_orig_params": True} if isinstance(m, Block) else False
                )
            },
            ("homogeneous", "_use_orig_params"),
        ),
    ],
)
def test_refusals(model: object, options: dict[str, object], words: tuple[str, ...]) -> None:
    """Torch's own complaint where there is one, the unit, and what to do."""
    with pytest.raises(PlanError) as caught:
        plan(model(), **{"world": 2, **options})  # type: ignore[operator,arg-type]
    for word in words:
        assert word in str(caught.value)


def test_cost_does_not_grow_with_the_world() -> None:
    """No shard is cut before it is asked for: a plan holds as much at 8 ranks as at 8192."""

    def measure(world: int) -> tuple[Plan, int]:
        model = nn.Sequential(*(Block() for _ in range(20)))
        tracemalloc.start()
        planned = plan(model, world=world, policy=ModuleWrapPolicy({Block}))
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return planned, held

    measure(8)
    small, few = measure(8)
    large, many = measure(8192)
    assert len(large.units) == len(small.units)
    assert large.collectives is not None
    assert large.collectives[0].ranks is large.units[0].ranks, "one tuple of ranks for all"
    ranks = sys.getsizeof(tuple(range(8192))) + 8192 * 28
    assert many - few < ranks + 100_000
    assert large.shard("3", 8191).rank == 8191


def test_meta_model_takes_no_memory() -> None:
    """A layer of four terabytes."""
    with torch.device("meta"):
        model = nn.Linear(1_000_000, 1_000_000, bias=False)
    planned = plan(model, world=1024)
    assert planned.rest_nbytes == 4 * 10**12 // 1024
    small = functools.partial(size_based_auto_wrap_policy, min_num_params=10**9)
    assert len(plan(nn.Sequential(model), world=1024, policy=small).units) == 2


def test_table() -> None:
    """A plan prints as a table; units that are alike share a line."""
    text = str(plan(three_blocks(), world=4, policy=ModuleWrapPolicy({Block})))
    assert "0 (3 alike)" in text
    assert "all-gathers" in text
    assert "bytes at rest" in text
    assert max(map(len, text.splitlines())) <= 88


def test_import_takes_no_torch() -> None:
    """The package, and the command until it has work to do."""
    program = "import sys, fsdp_demo, fsdp_demo.__main__; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_package_offers_the_planner_and_imports_torch_only_when_it_is_asked_for() -> None:
    program = (
        "import sys, fsdp_demo; assert 'torch' not in sys.modules;"
        "from fsdp_demo import plan; from fsdp_demo.planner import plan as same;"
        "assert plan is same"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
