"""`read_layout` against the numbers that lie in real shards."""

# ruff: noqa: SLF001 - torch's own record of a shard is private

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from fsdp_demo.layout import read_layout
from fsdp_demo.records import Layout, Padding, ParameterSlice, PartRow, Shard
from fsdp_demo.units import clean_name, find_units
from tests.instruments.programs import (
    STRATEGIES,
    Block,
    Case,
    be_fake_rank,
    build_model,
    checkpoint_blocks,
    run_ranks,
    wrap_model,
)

CASES = [
    *(
        Case(world=world, policy=policy, strategy=strategy, use_orig_params=original)
        for (policy, strategy), world, original in zip(
            itertools.product(("none", "blocks", "size"), STRATEGIES),
            itertools.cycle((4, 2)),
            itertools.cycle((False, True, True)),
            strict=False,
        )
    ),
    *(
        Case(world=world, policy="size", use_orig_params=original)
        for world in (1, 2, 3, 4)
        for original in (False, True)
    ),
    *(
        Case(world=3, kind=kind, use_orig_params=original)
        for kind in ("blocks", "shared", "frozen", "strided")
        for original in (False, True)
    ),
    Case(world=3, kind="part-frozen", use_orig_params=True),
    Case(world=3, checkpoint="not"),
    Case(world=3, checkpoint="not", policy="checkpoints", use_orig_params=True),
    Case(world=3, ignore=True),
    Case(world=3, ignore=True, use_orig_params=True),
]


def number_parameters(model: nn.Module) -> dict[str, dict[str, list[float]]]:
    """Give each number of the model a value of its own; return them by name and order."""
    counter = itertools.count(1)
    for parameter in model.parameters():
        values = list(itertools.islice(counter, parameter.numel()))
        parameter.data.copy_(torch.tensor(values).reshape(parameter.shape))
    return {
        clean_name(name): {
            "rows": parameter.flatten().tolist(),
            "memory": parameter.as_strided((parameter.numel(),), (1,)).tolist(),
        }
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


@functools.cache
def look(case: Case) -> list[dict[str, Any]]:
    """Return what each rank sees; each program runs once for all tests."""
    return run_ranks(look_here, case.world, case)


def look_here(rank: int, _world: int, case: Case) -> dict[str, Any]:
    """Return the layout before and after a forward, and what torch itself says and holds."""
    model = case.build()
    values = number_parameters(model)
    names = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    model = case.wrap(model)
    layout = read_layout(model)
    units = [unit for unit in find_units(model) if unit.handle is not None]
    held = {unit.name: unit.handle.flat_param.detach().tolist() for unit in units}
    infos = {unit.name: unit.handle.flat_param._shard_param_infos for unit in units}
    padded = {unit.name: unit.handle.flat_param._shard_numel_padded for unit in units}
    with FullyShardedDataParallel.summon_full_params(model):
        shapes = {clean_name(name): tuple(p.shape) for name, p in model.named_parameters()}
    case.run(model, rank)
    return {
        "layout": layout,
        "after": read_layout(model),
        "values": values,
        "names": {clean_name(name): wants for name, wants in names.items()},
        "held": held,
        "infos": [tuple(map(tuple, infos[unit])) for unit in infos],
        "padded": padded,
        "shapes": shapes,
    }


def check_shard(
    layout: Layout, shard: Shard, held: list[float], values: dict[str, dict[str, list[float]]]
) -> None:
    """Each number of a real shard is what the record says: of a parameter, or padding."""
    assert len(held) == shard.numel
    flat = layout.unit(shard.unit).flat_parameter
    assert flat is not None
    covered = [*shard.padding]
    for part in shard.slices:
        end = part.offset + part.stop - part.start
        covered.append((part.offset, end))
        order = "rows" if part.strides is None else "memory"
        assert values[part.name][order][part.start : part.stop] == held[part.offset : end]
        whole = next(parameter for parameter in flat.parameters if parameter.name == part.name)
        assert whole.offset + part.start == shard.start + part.offset
    assert sorted(itertools.chain(*itertools.starmap(range, covered))) == list(range(shard.numel))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_number_lies_where_the_layout_says(case: Case) -> None:
    """On each rank's real shard; and all ranks read the same, before a forward and after."""
    ranks = look(case)
    for rank, seen in enumerate(ranks):
        layout: Layout = seen["layout"]
        assert layout == seen["after"]
        for shard in layout.shards:
            check_shard(layout, shard, ranks[shard.rank]["held"][shard.unit], seen["values"])
        own = [shard for shard in layout.shards if shard.rank == rank]
        assert {shard.unit for shard in own} == set(seen["held"])
        # What torch wrote down for this rank when it cut the flat parameter.
        for shard, infos in zip(own, seen["infos"], strict=True):
            flat = layout.unit(shard.unit).flat_parameter
            assert flat is not None
            for parameter, (is_in, offset, numel, start, last) in zip(
                flat.parameters, infos, strict=True
            ):
                part = shard.slice_of(parameter.name)
                assert (part is not None) == is_in
                if part is not None:
                    assert (part.offset, part.start, part.stop - 1) == (offset, start, last)
                    assert part.stop - part.start == numel
            if not case.use_orig_params:
                assert shard.padding_numel == seen["padded"][shard.unit]
        if "HYBRID" not in case.strategy:
            assert layout == ranks[0]["layout"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_parameter_is_in_one_unit_or_ignored(case: Case) -> None:
    """By its own name, with its other names, its shape, and whether it wants a gradient."""
    seen = look(case)[0]
    layout: Layout = seen["layout"]
    flats = [unit.flat_parameter for unit in layout.units if unit.flat_parameter is not None]
    parameters = [*itertools.chain(*(flat.parameters for flat in flats)), *layout.ignored]
    assert {p.name: p.requires_grad for p in parameters} == seen["names"]
    assert len(parameters) == len(seen["names"])
    assert {name for p in parameters for name in (p.name, *p.shared_names)} == set(seen["values"])
    shapes = {p.name: p.shape for p in parameters}
    assert {name: seen["shapes"][name] for name in shapes if name in seen["shapes"]} == {
        name: shape for name, shape in shapes.items() if name in seen["shapes"]
    }
    assert [p.name for p in layout.ignored] == (
        ["embed.weight", "embed.bias"] if case.ignore else []
    )


def test_units_are_named_as_before_they_were_wrapped() -> None:
    """Name, class and strategy; world 1 turns any strategy into NO_SHARD."""
    with be_fake_rank(0, 1):
        model = checkpoint_blocks(build_model(), reentrant=False)
        layout = read_layout(wrap_model(model, "checkpoints"))
    assert [(unit.name, unit.class_name, unit.strategy) for unit in layout.units] == [
        ("", "Model", "NO_SHARD"),
        *((f"blocks.{index}", "Block", "NO_SHARD") for index in range(3)),
    ]


def test_hybrid_groups_are_read() -> None:
    """Shards lie inside a row of the mesh; the ranks of a column hold the same."""
    with be_fake_rank(1, 4):
        layout = read_layout(wrap_model(build_model(), strategy="HYBRID_SHARD"))
    assert {(unit.ranks, unit.replica_ranks) for unit in layout.units} == {((0, 1), (1, 3))}
    assert {shard.rank for shard in layout.shards} == {0, 1}


def test_nine_numbers_over_four_ranks() -> None:
    """The lesson's case: three numbers each, and a last rank that holds padding alone."""
    with be_fake_rank(0, 4):
        layout = read_layout(wrap_model(nn.Linear(3, 3, bias=False), "none"))
    flat = layout.units[0].flat_parameter
    assert flat is not None
    assert (flat.numel, flat.numel_padded, flat.shard_numel) == (9, 12, 3)
    assert flat.padding == (Padding(9, 12, "right-hand"),)
    assert str(layout).splitlines()[1:] == [
        "  rank 0  (root): weight row 0",
        "  rank 1  (root): weight row 1",
        "  rank 2  (root): weight row 2",
        "  rank 3  (root): 3 padding",
    ]


def test_alignment_padding_is_told_from_right_hand_padding() -> None:
    """`use_orig_params=True` begins a parameter at a multiple of 16 bytes, 4 numbers here."""
    with be_fake_rank(0, 5):
        model = wrap_model(nn.Linear(7, 8), "none", use_orig_params=True)
        flat = read_layout(model).units[0].flat_parameter
        other = wrap_model(nn.Linear(3, 3), "none", use_orig_params=True)
        other_flat = read_layout(other).units[0].flat_parameter
    assert flat is not None
    assert other_flat is not None
    assert (flat.numel, flat.numel_padded, flat.padding) == (
        65,
        65,
        (Padding(64, 65, "right-hand"),),
    )
    assert other_flat.padding == (Padding(9, 12, "alignment"),)


def test_only_the_wanted_ranks_are_read() -> None:
    """In a large world, a few shards: the same records as among all."""
    with be_fake_rank(3, 64):
        model = wrap_model(Block(7), "size")
        some, everything = read_layout(model, ranks=(3, 63)), read_layout(model)
    assert {shard.rank for shard in some.shards} == {3, 63}
    assert some.units == everything.units
    assert all(shard in everything.shards for shard in some.shards)
    assert some.shard("up", 63) == everything.shard("up", 63)
    with pytest.raises(KeyError, match="no shard of unit 'up' on rank 5 was read"):
        some.shard("up", 5)
    with pytest.raises(KeyError, match=r"no unit 'x'; there are: \(root\), up, down"):
        some.unit("x")


def test_a_model_without_units_is_refused() -> None:
    """Rather than read as empty."""
    with pytest.raises(ValueError, match="Linear has no FSDP unit: wrap it"):
        read_layout(nn.Linear(2, 2))


def test_a_transposed_parameter_lies_as_its_torch_lays_it() -> None:
    """2.2.2 flattens it row by row; newer torch keeps its order in memory, which has no rows."""
    with be_fake_rank(0, 2):
        layout = read_layout(wrap_model(build_model("strided")))
    part = layout.shard("blocks.0", 0).slices[0]
    if torch.__version__.startswith("2.2."):
        assert (part.strides, str(part)) == (None, "blocks.0.up.weight rows 0-2")
    else:
        assert (part.strides, str(part)) == (
            (1, 3),
            "blocks.0.up.weight numbers 0-32 in memory order",
        )
        with pytest.raises(ValueError, match=r"up\.weight lies with strides"):
            _ = part.whole_rows


@pytest.mark.parametrize(
    ("shape", "start", "stop", "whole", "parts", "text"),
    [
        ((4, 4), 0, 8, range(2), (), "w rows 0-1"),
        ((4, 4), 4, 8, range(1, 2), (), "w row 1"),
        ((4, 4), 3, 13, range(1, 3), (PartRow(0, 3, 4), PartRow(3, 0, 1)),
         "w row 0[3], rows 1-2, row 3[0]"),
        ((4, 4), 5, 7, range(0), (PartRow(1, 1, 3),), "w row 1[1-2]"),
        ((4, 4), 6, 10, range(0), (PartRow(1, 2, 4), PartRow(2, 0, 2)), "w row 1[2-3], row 2[0-1]"),
        ((5,), 1, 4, range(1, 4), (), "w rows 1-3"),
        ((2, 2, 3), 6, 9, range(0), (PartRow(1, 0, 3),), "w row 1[0-2]"),
        ((), 0, 1, range(1), (), "w"),
    ],
)  # fmt: skip
def test_a_slice_is_told_in_rows(  # noqa: PLR0913, PLR0917  # one row of the table
    shape: tuple[int, ...],
    start: int,
    stop: int,
    whole: range,
    parts: tuple[PartRow, ...],
    text: str,
) -> None:
    """Whole rows, part rows, and both in words; a row is one index of the first dimension."""
    held = ParameterSlice("w", shape, start, stop, 0)
    assert list(held.whole_rows) == list(whole)
    assert held.part_rows == parts
    assert str(held) == text
