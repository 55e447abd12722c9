"""The plan equals the real FSDP, on random models."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plan.fake_world import check
from tests.plan.random_models import Case, Node, Weight, make_plain

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
DTYPES = (("float32",),) * 8 + (("bfloat16",), ("float64",), ("float32", "bfloat16"))
WORLDS = (1, 2, 3, 4, 5, 8, 16, 64)
MESHES = ((1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (4, 2), (2, 4), (1, 1), (4, 16))


@st.composite
def weights(draw: st.DrawFn, *, frozen: bool, dtypes: tuple[str, ...]) -> Weight:
    return Weight(
        shape=tuple(draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))),
        frozen=frozen and draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
        used=draw(st.sampled_from((True, True, True, True, False))),
    )


@st.composite
def nodes(draw: st.DrawFn, depth: int = 3, dtypes: tuple[str, ...] = ("float32",)) -> Node:
    """Draw a tree; a module is frozen whole, in part, or (mostly) not at all."""
    children: tuple[Node, ...] = ()
    if depth:
        children = tuple(draw(st.lists(nodes(depth - 1, dtypes), max_size=3)))
    frozen = draw(st.integers(0, 9)) == 0
    order = None
    if children and draw(st.integers(0, 3)) == 0:
        order = tuple(draw(st.lists(st.integers(0, len(children) - 1), max_size=4)))
    return Node(
        kind=draw(st.sampled_from(("A", "B", "C"))),
        weights=tuple(draw(st.lists(weights(frozen=frozen, dtypes=dtypes), max_size=3))),
        children=children,
        order=order,
        first=draw(st.booleans()),
        same=draw(st.booleans()),
        detach=draw(st.integers(0, 19)) == 1,
        drop=draw(st.integers(0, 9)) == 1,
        batch_norm=draw(st.integers(0, 8)) == 1,
        checkpoint=draw(st.sampled_from(("",) * 6 + ("reentrant", "not"))),
        tied=draw(st.sampled_from((None,) * 30 + (0, 1, 2))),
        pair=draw(st.integers(0, 8)) == 1,
    )


def policies() -> st.SearchStrategy[tuple[Any, ...]]:
    names = st.lists(st.sampled_from(("A", "B", "C")), min_size=1, max_size=2, unique=True)
    return st.one_of(
        st.just(("none",)),
        names.map(lambda chosen: ("module", *chosen)),
        names.map(lambda chosen: ("module", *chosen)),
        names.map(lambda chosen: ("transformer", *chosen)),
        st.integers(1, 60).map(lambda least: ("size", least)),
        st.just(("always",)),
        st.integers(2, 4).map(lambda step: ("lambda", step)),
        st.integers(2, 4).map(lambda step: ("custom", step)),
        st.tuples(st.just("custom-options"), st.integers(2, 4), st.sampled_from(STRATEGIES[:3])),
    )


STEPS: tuple[dict[str, Any], ...] = (
    *({},) * 6,
    {"steps": 2},
    {"forwards": 2},
    {"accumulate": 2},
    {"accumulate": 2, "no_sync": True},
    {"accumulate": 3, "no_sync": True, "steps": 2},
    {"steps": 2, "forwards": 2},
    {"backward": False},
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    strategy = draw(st.sampled_from(STRATEGIES))
    mesh = None
    world = draw(st.sampled_from(WORLDS))
    if "HYBRID" in strategy:
        mesh = draw(st.sampled_from(MESHES))
        world = mesh[0] * mesh[1]
    dtypes = draw(st.sampled_from(DTYPES))
    root = draw(nodes(dtypes=dtypes))
    example = draw(st.booleans())
    return Case(
        root=root if example else make_plain(root),
        world=world,
        rank=draw(st.integers(0, world - 1)),
        mesh=mesh,
        strategy=strategy,
        policy=draw(policies()),
        use_orig_params=draw(st.booleans()),
        param_dtype=draw(st.sampled_from((None, None, "bfloat16", "float16"))),
        reduce_dtype=draw(st.sampled_from((None, None, "bfloat16", "float32"))),
        keep_low=draw(st.integers(0, 9)) == 0,
        prefetch=draw(st.sampled_from(("BACKWARD_PRE", "BACKWARD_PRE", "BACKWARD_POST", None))),
        forward_prefetch=draw(st.booleans()),
        ignore=tuple(draw(st.lists(st.sampled_from("0123456789"), max_size=2)))
        if draw(st.integers(0, 4)) == 0
        else (),
        ignore_modules=draw(st.booleans()),
        input_grad=example and draw(st.booleans()),
        example=example,
        steps=draw(st.sampled_from(STEPS)),
    )


@pytest.mark.timeout(7200)
def test_plan_equals_fsdp(request: pytest.FixtureRequest) -> None:
    """Units, flat parameters, every rank's slices, collectives and memory, in each figure."""
    thorough = request.config.getoption("--thorough", default=False)
    outcomes: collections.Counter[str] = collections.Counter()

    @settings(
        max_examples=20_000 if thorough else 2_000,
        deadline=None,
        database=None,
        derandomize=not thorough,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def compare(case: Case) -> None:
        outcomes[check(case)] += 1

    compare()
    print(dict(outcomes))
    assert outcomes["run"] > sum(outcomes.values()) / 3
