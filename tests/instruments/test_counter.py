"""`count_collectives` against counters put on torch's entry points by hand."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fsdp_demo.collectives import count_collectives
from tests.instruments.programs import (
    CASES,
    STRATEGIES,
    Block,
    Case,
    be_fake_rank,
    build_model,
    make_batch,
    run_ranks,
    wrap_model,
)
from tests.instruments.watched import watch, watch_here

if TYPE_CHECKING:
    from fsdp_demo.records import Collective

IS_222 = torch.__version__.startswith("2.2.")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_agrees_with_counters_on_the_entry_points(case: Case) -> None:
    """Kind, phase, unit, bytes and order, on every rank, in every program."""
    for seen in watch(case):
        assert seen.entry_points == [
            (c.kind, c.phase, c.unit, c.nbytes_in, c.nbytes_out, len(c.ranks))
            for c in seen.collectives
        ]
        assert seen.collectives or (case.strategy, case.steps) == ("NO_SHARD", "forward_only")


def count_one_step(
    rank: int, _world: int, strategy: str, options: dict[str, Any]
) -> list[Collective]:
    model = wrap_model(build_model("blocks"), "blocks", strategy, **options)
    with count_collectives(model) as record:
        model(make_batch(rank)).sum().backward()
    return record


@pytest.mark.parametrize(
    ("strategy", "counts"),
    [
        ("FULL_SHARD", {("forward", "all-gather"): 3, ("backward", "all-gather"): 3}),
        ("SHARD_GRAD_OP", {("forward", "all-gather"): 3}),
        ("NO_SHARD", {}),
        ("HYBRID_SHARD", {("forward", "all-gather"): 3, ("backward", "all-gather"): 3}),
        ("_HYBRID_SHARD_ZERO2", {("forward", "all-gather"): 3}),
    ],
)
def test_each_strategy_has_its_counts_on_its_groups(
    strategy: str, counts: dict[tuple[str, str], int]
) -> None:
    """Three blocks on a 2 by 2 mesh: gathers and reductions by phase, and their ranks."""
    counts = dict(counts)
    if strategy != "NO_SHARD":
        counts["backward", "reduce-scatter"] = 3
    if strategy not in ("FULL_SHARD", "SHARD_GRAD_OP"):
        counts["backward", "all-reduce"] = 3
    for rank, record in enumerate(run_ranks(count_one_step, 4, strategy, {})):
        assert Counter((c.phase, c.kind) for c in record) == counts
        whole = (0, 1, 2, 3)
        inside, across = ((0, 1), (2, 3))[rank // 2], ((0, 2), (1, 3))[rank % 2]
        hybrid = "HYBRID" in strategy
        assert {c.ranks for c in record if c.kind == "all-reduce"} <= {across if hybrid else whole}
        assert {c.ranks for c in record if c.kind != "all-reduce"} <= {inside if hybrid else whole}


def test_a_prefetched_gather_is_the_gathered_units() -> None:
    """In the backward, each unit's gather is issued while the unit after it computes."""
    record = run_ranks(count_one_step, 2, "FULL_SHARD", {})[0]
    assert [(c.kind, c.unit) for c in record if c.phase == "backward"] == [
        ("all-gather", "2"),
        ("all-gather", "1"),
        ("reduce-scatter", "2"),
        ("all-gather", "0"),
        ("reduce-scatter", "1"),
        ("reduce-scatter", "0"),
    ]


def test_mixed_precision_shows_in_dtype_and_bytes() -> None:
    """Gathers in the parameter's dtype, reductions in the reduction's."""
    from torch.distributed.fsdp import MixedPrecision  # noqa: PLC0415  # used once

    mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float64)
    record = run_ranks(count_one_step, 2, "FULL_SHARD", {"mixed_precision": mixed})[0]
    assert {(c.kind, c.dtype) for c in record} == {
        ("all-gather", "bfloat16"),
        ("reduce-scatter", "float64"),
    }
    gather, reduction = record[0], next(c for c in record if c.unit == "0" and "red" in c.kind)
    assert gather.nbytes_out * 4 == reduction.nbytes_in


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_fake_process_group_gives_what_real_ranks_give(strategy: str) -> None:
    """One process as rank 1 of 4, also where the group's methods bypass the dispatcher (2.2.2)."""
    case = Case(world=4, strategy=strategy, policy="size", use_orig_params=True)
    real = watch(case)[1]
    with be_fake_rank(1, 4):
        fake = watch_here(1, 4, case)
    assert (fake.collectives, fake.entry_points) == (real.collectives, real.entry_points)
    assert (fake.timeline, fake.layout) == (real.timeline, real.layout)


def count_by_hand(rank: int, world: int) -> list[Collective]:
    tensor, two = torch.ones(3), torch.zeros(2, dtype=torch.float64)
    with count_collectives(nn.Module()) as record:
        dist.broadcast(tensor, src=1)
        dist.reduce(tensor, dst=0)
        dist.all_to_all_single(two, torch.ones(2, dtype=torch.float64)) if not IS_222 else None
        dist.gather(tensor, [torch.ones(3) for _ in range(world)] if rank == 0 else None)
        dist.scatter(tensor, [torch.ones(3) for _ in range(world)] if rank == 0 else None)
        (dist.send if rank == 0 else dist.recv)(tensor, 1 - rank)
        dist.barrier()
    dist.all_reduce(tensor)
    return record


def test_any_collective_is_counted_and_none_after_the_block() -> None:
    """Collectives that no unit asks for: kind, bytes in and out, from each rank's side."""
    zero, one = run_ranks(count_by_hand, 2)
    kinds = ["broadcast", "reduce", "all-to-all", "gather", "scatter", "send", "barrier"]
    sizes = [(12, 12), (12, 12), (16, 16), (12, 24), (24, 12), (12, 0), (0, 0)]
    if IS_222:  # gloo has no all-to-all there
        del kinds[2], sizes[2]
    assert [c.kind for c in zero] == kinds
    assert [(c.nbytes_in, c.nbytes_out) for c in zero] == sizes
    assert (zero[-2].kind, one[-2].kind, one[-2].nbytes_out) == ("send", "receive", 12)
    assert {(c.phase, c.unit, c.ranks) for c in zero} == {("outside", None, (0, 1))}


def count_through_python(rank: int, _world: int) -> list[Collective]:
    """All-reduce through a process group written in Python, made of a real one."""
    real: Any = dist.group.WORLD
    base: Any = dist.ProcessGroup

    class Doubling(base):  # type: ignore[misc]
        def allreduce(self, tensors: list[torch.Tensor], options: object) -> object:
            return real.allreduce(tensors, options)

    group = Doubling(rank, 2)
    dist.distributed_c10d._world.pg_group_ranks[group] = {0: 0, 1: 1}  # noqa: SLF001
    with count_collectives(nn.Module()) as record:
        group.allreduce([torch.ones(3)], dist.AllreduceOptions())
    return record


def count_threads(_rank: int, _world: int) -> list[tuple[str, int]]:
    """Issue collectives of other sizes in threads: in, before, across and after the block."""
    go_on, go_on_after = threading.Event(), threading.Event()

    def reduce(numel: int, wait: threading.Event | None = None) -> None:
        if wait is not None:
            wait.wait()
        dist.all_reduce(torch.ones(numel))

    class Gathering(threading.Thread):
        def run(self) -> None:
            dist.all_gather([torch.ones(1), torch.ones(1)], torch.ones(1))

    before = threading.Thread(target=reduce, args=(7, go_on))
    before.start()
    with count_collectives(nn.Linear(1, 1)) as record, ThreadPoolExecutor(1) as pool:
        pool.submit(reduce, 2).result()
        pool.submit(reduce, 3).result()
        own = Gathering()
        own.start()
        own.join()
        reduce(4)
        go_on.set()
        before.join()
        across = threading.Thread(target=reduce, args=(8, go_on_after))
        across.start()
    go_on_after.set()
    across.join()
    after = threading.Thread(target=reduce, args=(9,))
    after.start()
    after.join()
    return [(collective.kind, collective.nbytes_in) for collective in record]


def test_threads_that_the_block_starts_are_counted_while_it_lasts() -> None:
    """A thread that ran before is not seen: a dispatch mode can't enter it."""
    seen = run_ranks(count_threads, 2)
    reduced = [("all-reduce", 4 * numel) for numel in (2, 3, 4)]
    assert seen == [[*reduced[:2], ("all-gather", 4), reduced[2]]] * 2


def test_a_collective_made_of_another_is_one() -> None:
    """A Python process group's call is counted, and the operator that it ends in is not again."""
    record = run_ranks(count_through_python, 2)[0]
    assert [(c.kind, c.nbytes_in, c.ranks) for c in record] == [("all-reduce", 12, (0, 1))]


def count_around_a_failure(rank: int, _world: int) -> tuple[list[Collective], list[int]]:
    class Failing(Block):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            raise ValueError(batch.shape)

    model = wrap_model(nn.Sequential(Failing(3)), "none")
    with count_collectives(model) as record:
        with contextlib.suppress(ValueError):
            model(make_batch(rank))
        dist.all_reduce(torch.ones(1))
    return record, [len(model._forward_hooks), len(model._forward_pre_hooks)]  # noqa: SLF001


def test_a_forward_that_raises_ends_the_phase() -> None:
    """And the block leaves no hook behind."""
    record, hooks = run_ranks(count_around_a_failure, 2)[0]
    assert [(c.kind, c.phase, c.unit) for c in record] == [
        ("all-gather", "forward", ""),
        ("all-reduce", "outside", None),
    ]
    assert hooks == [0, 0]


def count_other_work(rank: int, _world: int) -> list[Collective]:
    from torch.distributed.fsdp import FullyShardedDataParallel  # noqa: PLC0415  # used once

    model = wrap_model(build_model())
    with count_collectives(model) as record:
        with FullyShardedDataParallel.summon_full_params(model):
            pass
        model(make_batch(rank)).sum().backward()
        first = len(record)
        model.clip_grad_norm_(1.0)
    return [*record[:4], *record[first:]]


def test_gathers_on_request_and_the_gradients_norm_are_outside() -> None:
    """`summon_full_params` gathers for each unit; `clip_grad_norm_`'s all-reduce is no unit's."""
    record = run_ranks(count_other_work, 2)[0]
    assert [(c.kind, c.unit) for c in record] == [
        *(("all-gather", unit) for unit in ("", "blocks.0", "blocks.1", "blocks.2")),
        ("all-reduce", None),
    ]
    assert {c.phase for c in record} == {"outside"}


def count_ddp(rank: int, _world: int) -> list[Collective]:
    model = nn.parallel.DistributedDataParallel(build_model("blocks"))
    with count_collectives(model) as record:
        model(make_batch(rank)).sum().backward()
    return record


def test_ddp_all_reduces_in_its_backward() -> None:
    """A collective that C++ issues is seen too; DDP's belong to no unit."""
    record = run_ranks(count_ddp, 2)[0]
    assert {(c.kind, c.phase, c.unit) for c in record} == {("all-reduce", "backward", None)}


def count_fully_shard(rank: int, _world: int) -> list[Collective]:
    fully_shard = vars(torch.distributed.fsdp)["fully_shard"]  # 2.2.2 has none
    model = build_model("blocks")
    for block in model.children():
        fully_shard(block)
    fully_shard(model)
    with count_collectives(model) as record:
        model(make_batch(rank)).sum().backward()
        first: Any = next(model.parameters())  # a DTensor
        first.full_tensor()
    return record


@pytest.mark.skipif(IS_222, reason="fully_shard came after torch 2.2.2")
def test_fully_shard_is_counted_by_unit() -> None:
    """FSDP2's collectives, and the gather by which a DTensor shows itself whole."""
    *step, shown = run_ranks(count_fully_shard, 2)[0]
    assert Counter((c.phase, c.kind) for c in step) == {
        ("forward", "all-gather"): 3,
        ("backward", "all-gather"): 3,
        ("backward", "reduce-scatter"): 3,
    }
    assert [c.unit for c in step if c.phase == "forward"] == ["0", "1", "2"]
    assert [c.unit for c in step if c.kind == "reduce-scatter"] == ["2", "1", "0"]
    assert (shown.kind, shown.phase, shown.unit, shown.ranks) == (
        "all-gather",
        "outside",
        None,
        (0, 1),
    )
