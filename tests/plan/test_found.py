"""What random models found: each was a disagreement, and is a rule of torch 2.2.2 now."""

# ruff: noqa: ANN401 - a node's fields are passed on

from __future__ import annotations

from typing import Any

import pytest
from torch import nn
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from fsdp_demo.planner import plan
from tests.plan.fake_world import check, predict
from tests.plan.random_models import Case, Node, Weight

ONE = (Weight(shape=()),)


def node(*children: Node, **options: Any) -> Node:  # fields of a node
    return Node(children=children, **options)


def test_unit_around_checkpoint_around_unit() -> None:
    """`_post_order_apply` wraps a checkpoint's inside too; the outer unit's class is FSDP's."""
    case = Case(Node("A", ONE, (Node("B", ONE, checkpoint="not"),)), policy=("always",))
    assert check(case) == "run"
    assert "FullyShardedDataParallel" in {unit.class_name for unit in predict(case).units}


def test_list_of_modules_as_a_unit() -> None:
    """A unit without a forward is never entered: `FullyShardedDataParallel.forward` gathers."""
    model = nn.Sequential(nn.Linear(2, 2))
    model.more = nn.ModuleList([nn.Linear(2, 2)])
    planned = plan(model, world=2, policy=ModuleWrapPolicy({nn.ModuleList}))
    assert "has no forward" in (planned.unknown or "")
    assert planned.collectives is None
    assert planned.peak_nbytes("forward") is None


def test_gradient_of_an_original_makes_a_new_one() -> None:
    """`_writeback_orig_params`: an original with a gradient elsewhere gives the flat one a new."""
    inner = Node(children=(Node(), Node(), Node("A", ONE, checkpoint="reentrant")))
    case = Case(
        node(node(node(Node(), Node(), Node("A", ONE)), inner)),
        policy=("always",),
        use_orig_params=True,
        example=False,
        steps={"steps": 2, "forwards": 2},
    )
    assert check(case) == "run"


def test_original_is_replaced_by_a_view() -> None:
    """`_catch_all_reshard` compares addresses, which under NO_SHARD never differ."""
    root = node(Node(), Node(weights=ONE, detach=True), Node(weights=ONE, checkpoint="not"))
    case = Case(root, world=1, policy=("lambda", 2), use_orig_params=True, steps={"steps": 2})
    assert check(case) == "raised"
    assert "parameter shape changes" in (predict(case).unknown or "")


@pytest.mark.parametrize("world", [1, 2])
def test_low_precision_gradient_of_a_shared_parameter(world: int) -> None:
    """`_use_sharded_grad_views` assigns it without the detour that it takes for others."""
    root = Node(weights=ONE, tied=0)
    case = Case(root, world=world, use_orig_params=True, param_dtype="bfloat16", keep_low=True)
    assert check(case) == "raised"


def test_shared_parameter_outside_its_unit() -> None:
    """`_get_orig_params` skips a parameter that an inner unit has flattened already."""
    root = node(Node("B", ONE), Node("A", tied=0))
    case = Case(root, policy=("module", "B"), use_orig_params=True)
    assert check(case) == "not run"
    assert "below.1.tied" in (predict(case).unknown or "")


def test_shared_parameter_in_two_units() -> None:
    """Without `use_orig_params` both flatten it: the original carries no mark of the first."""
    root = node(Node("B", ONE), Node("B", tied=0))
    case = Case(root, policy=("module", "B"))
    assert check(case) == "run"
    assert any("shared no more" in note for note in predict(case).notes)


def test_size_policy_counts_a_shard() -> None:
    """`_recursive_wrap` counts a shared parameter by what an inner unit left of it on this rank."""
    root = node(Node(weights=(Weight(shape=(3,)),)), node(Node(tied=0), Node(tied=0)))
    units = []
    for rank in (0, 1):
        case = Case(root, rank=rank, policy=("size", 2), use_orig_params=True, example=False)
        assert check(case) == "not run"
        units.append(len(predict(case).units))
    assert units[0] > units[1], "the ranks wrap different modules"


def test_freed_while_its_backward_runs() -> None:
    """Two reentrant checkpoints in a unit: `_post_backward_hook` frees after the first."""
    root = node(Node(weights=ONE), node(Node(weights=ONE), checkpoint="reentrant"))
    case = Case(root, example=False)
    assert check(case) == "not run"
    assert "freed" in (predict(case).unknown or "")


def test_low_precision_shard_is_freed_under_no_shard() -> None:
    """`post_reshard` frees `_mp_shard`, which under NO_SHARD is what the views look into."""
    root = node(Node(weights=ONE, checkpoint="not"), Node(weights=ONE, checkpoint="reentrant"))
    case = Case(root, strategy="NO_SHARD", param_dtype="bfloat16", example=False)
    assert check(case) == "not run"


def test_recomputed_after_its_gradient_was_reduced() -> None:
    """`_use_sharded_views` puts the originals back, whose gradients go to no flat one."""
    root = node(Node(weights=ONE), Node(weights=ONE, batch_norm=True, checkpoint="reentrant"))
    case = Case(root, world=1, use_orig_params=True, example=False, steps={"forwards": 2})
    assert check(case) == "not run"
    assert "passes FSDP by" in (predict(case).unknown or "")


def test_backward_comes_to_a_unit_without_a_gradient() -> None:
    """`prepare_gradient_for_optim` asserts that a post-backward left a reduced gradient."""
    inner = node(Node(detach=True), batch_norm=True, checkpoint="reentrant")
    case = Case(
        Node(weights=(Weight(),), children=(inner,), first=True),
        world=5,
        policy=("transformer", "C"),
        reduce_dtype="bfloat16",
    )
    assert check(case) == "raised"
    assert "_saved_grad_shard" in (predict(case).unknown or "")


def test_shard_as_long_as_the_whole() -> None:
    """One number over two ranks: sizes do not tell the shard's gradient from the whole's."""
    case = Case(Node(weights=ONE), steps={"accumulate": 3, "no_sync": True, "steps": 2})
    assert check(case) == "run"


def test_rank_that_holds_padding_alone() -> None:
    """`_reset_flat_param_grad_info_if_needed` drops a gradient of which no original has a part."""
    case = Case(
        Node(weights=(Weight(shape=(2,)),)),
        world=8,
        rank=7,
        use_orig_params=True,
        steps={"accumulate": 2},
    )
    assert check(case) == "run"


@pytest.mark.parametrize("prefetch", ["BACKWARD_PRE", None])
@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_unit_whose_output_is_not_used(strategy: str, prefetch: str | None) -> None:
    """`_catch_all_reshard` frees what no post-backward freed, gathered in vain or never freed."""
    root = node(Node("B", ONE), Node("B", ONE), Node("B", ONE), drop=True)
    for original in (False, True):
        case = Case(
            root,
            strategy=strategy,
            policy=("module", "B"),
            use_orig_params=original,
            prefetch=prefetch,
        )
        assert check(case) == "run"


@pytest.mark.parametrize("policy", [("none",), ("module", "B")])
@pytest.mark.parametrize("mesh", [(4, 1), (1, 4)])
def test_mesh_with_an_axis_of_one(mesh: tuple[int, int], policy: tuple[str, ...]) -> None:
    """`_init_core_state` looks at the sharding group's size alone: one rank is NO_SHARD."""
    root = Node("A", ONE, (Node("B", ONE),))
    case = Case(root, world=4, mesh=mesh, strategy="HYBRID_SHARD", policy=policy)
    assert check(case) == "run"
    planned = predict(case)
    averaged = {c.ranks for c in planned.collectives or () if c.kind == "all-reduce"}
    assert averaged == {(0,)}, "one rank, in the sharding group or among the replicas"
    assert any("never averaged" in note for note in planned.notes) == (mesh == (4, 1))


def test_checkpoint_makes_tensors_in_the_backward() -> None:
    """`torch.utils.checkpoint` makes an empty tensor as it recomputes: on meta, as before."""
    root = node(
        Node(weights=ONE, checkpoint="reentrant"),
        node(Node(first=True, checkpoint="reentrant"), checkpoint="reentrant"),
        order=(1, 0, 1, 0),
        checkpoint="not",
    )
    case = Case(root, strategy="NO_SHARD", input_grad=True)
    assert check(case) == "run"


def test_frozen_unit_that_no_backward_enters() -> None:
    """`_get_handle_to_prefetch` asserts a state, which a frozen unit's inputs alone don't give."""
    root = Node(weights=(Weight(frozen=True, used=False),), first=True, same=True)
    case = Case(root, world=1, input_grad=True, steps={"accumulate": 2})
    assert check(case) == "raised"
    assert "Prefetching" in (predict(case).unknown or "")


def test_shared_parameter_is_read_after_it_was_freed() -> None:
    """As above, by a module that has the parameter in common with another."""
    root = node(Node(weights=ONE), Node(tied=0, checkpoint="reentrant"), order=(1, 0, 1))
    case = Case(root, input_grad=True)
    assert check(case) == "not run"
    assert "reads freed memory" in (predict(case).unknown or "")
