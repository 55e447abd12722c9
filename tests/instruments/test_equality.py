"""`compare_with_plain`: sharded runs against the same model in one process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fsdp_demo.equality import Differences, compare_with_plain
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
        assert (getattr(differences, field) > 1e-3) == (field in fields)


def compare_too_few(_rank: int, _world: int) -> str:
    case = Case()
    with pytest.raises(ValueError, match="1 batches for 2 ranks: give one for each rank") as caught:
        compare_with_plain(case.build, case.wrap, [make_batch(0)])
    return str(caught.value)


def test_each_rank_needs_a_batch() -> None:
    assert len(run_ranks(compare_too_few, 2)) == 2
