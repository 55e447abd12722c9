"""`compare_with_plain`: sharded runs against the same model in one process."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from fsdp_demo.equality import (
    Differences,
    UnequalError,
    compare_with_plain,
    hold,
    hold_to_plain,
)
from fsdp_demo.equality.compare import compare_tensors
from tests.instruments.programs import CASES, Case, make_batch, run_ranks
from tests.instruments.watched import watch

ROUNDING = 2e-6  # the largest seen is 4e-7, on gradients of about 1


@pytest.mark.parametrize("case", [case for case in CASES if case.steps == "step_once"], ids=str)
def test_a_sharded_step_is_the_plain_step(case: Case) -> None:
    """Output, gathered gradients and parameters after a step of SGD, by rounding."""
    for seen in watch(case):
        assert seen.differences is not None
        assert seen.differences.largest < ROUNDING


def compare_changed(rank: int, world: int, change: str) -> Differences:
    case = Case()

    def wrap(model: nn.Module) -> nn.Module:
        if change == "weight":
            with torch.no_grad():
                model.scale[0] += 1.0
        if change == "frozen":
            model.scale.requires_grad_(requires_grad=False)
            return Case(use_orig_params=True).wrap(model)
        return case.wrap(model)

    data = [make_batch(each if change != "data" else 0) for each in range(world)]
    if change == "data" and rank == 1:
        data[1] = make_batch(1)  # the others compare with what this rank did not get
    return compare_with_plain(case.build, wrap, data)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("weight", ("output", "gradient", "parameter")),
        ("frozen", ("gradient", "parameter")),
        ("data", ("gradient", "parameter")),
    ],
)
def test_a_run_that_differs_is_seen(change: str, fields: tuple[str, ...]) -> None:
    """Another weight, a gradient that is missing, another rank's data."""
    differences = run_ranks(compare_changed, 2, change)[0]
    for field in ("output", "gradient", "parameter"):
        assert (getattr(differences, field).largest > 1e-3) == (field in fields)


def compare_too_few(_rank: int, _world: int) -> str:
    case = Case()
    with pytest.raises(ValueError, match="1 batches for 2 ranks: give one for each rank") as caught:
        compare_with_plain(case.build, case.wrap, [make_batch(0)])
    return str(caught.value)


def test_each_rank_needs_a_batch() -> None:
    assert len(run_ranks(compare_too_few, 2)) == 2


def build_layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def wrap_layer(layer: nn.Module) -> nn.Module:
    return FullyShardedDataParallel(layer, device_id=torch.device("cpu"))


def wrap_changed(layer: nn.Module) -> nn.Module:
    with torch.no_grad():
        next(layer.parameters())[0, 0] += 2.0**-10
    return wrap_layer(layer)


def draw_batches(world: int) -> torch.Tensor:
    return torch.randn(world, 2, 4, generator=torch.Generator().manual_seed(1))


def test_two_ranks_are_equal_to_the_last_bit(capsys: pytest.CaptureFixture[str]) -> None:
    hold_to_plain("a layer", build_layer, wrap_layer, draw_batches(2))
    assert capsys.readouterr().out == (
        "a layer, 2 ranks, against the plain model:\n"
        "  outputs bit-identical, gradients bit-identical, parameters bit-identical\n"
    )


def test_what_is_published_names_each_call_of_fsdp(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def publish(_mime: str, data: dict[str, Any], _text: str) -> bool:
        seen.append(data)
        return True

    monkeypatch.setattr(hold, "publish", publish)
    hold_to_plain("a layer", build_layer, wrap_layer, draw_batches(3))
    code = wrap_layer.__code__
    assert seen[0]["calls"] == [(code.co_filename, code.co_firstlineno + 1)]
    assert seen[0]["world"] == 3
    assert seen[0]["identical"]["outputs"] is True
    assert set(seen[0]["largest"]) == {"outputs", "gradients", "parameters"}


def test_a_small_change_is_no_rounding() -> None:
    with pytest.raises(UnequalError, match="a layer: the outputs are not the plain model's"):
        hold_to_plain("a layer", build_layer, wrap_changed, draw_batches(2))


def test_equal_batches_prove_nothing() -> None:
    with pytest.raises(ValueError, match="give each rank another one"):
        hold_to_plain("a layer", build_layer, wrap_layer, torch.ones(2, 2, 4))


def test_the_sign_of_a_zero_is_a_bit() -> None:
    zero = {"zero": torch.zeros(2)}
    found = compare_tensors(zero, {"zero": -torch.zeros(2)})
    assert (found.largest, found.identical) == (0.0, False)
    assert compare_tensors(zero, zero).identical
    assert compare_tensors(zero, {"zero": torch.zeros(1)}).largest == math.inf
