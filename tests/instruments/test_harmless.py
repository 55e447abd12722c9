"""The instruments change nothing, and leave nothing behind."""

# ruff: noqa: SLF001 - hooks and what is replaced are private

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from torch.distributed.fsdp import _runtime_utils
from torch.distributed.fsdp._flat_param import FlatParamHandle

from fsdp_demo.collectives import count_collectives
from fsdp_demo.memory import record_memory
from tests.instruments.programs import CASES, Case, run_ranks
from tests.instruments.watched import watch

if TYPE_CHECKING:
    import torch


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers_are_the_same_to_the_last_bit(case: Case) -> None:
    """Outputs, gradients and parameters, with all instruments on at once."""
    for seen in watch(case):
        assert seen.bits == seen.plain_bits


def find_traces(rank: int, _world: int, case: Case) -> list[Any]:
    functions = (FlatParamHandle.unshard, FlatParamHandle.reshard, _runtime_utils._reduce_grad)
    model = case.wrap(case.build())
    hooks = count_hooks(model)
    with contextlib.suppress(KeyError), count_collectives(model), record_memory(model):
        case.run(model, rank)
        raise KeyError
    left = (FlatParamHandle.unshard, FlatParamHandle.reshard, _runtime_utils._reduce_grad)
    return [hooks == count_hooks(model), functions == left]


def count_hooks(model: torch.nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_nothing_is_left_behind() -> None:
    """No hook and no replaced function, also when the block raises."""
    assert run_ranks(find_traces, 2, Case()) == [[True, True]] * 2


def test_records_import_no_torch() -> None:
    """What only reads records, or predicts them, need not wait for torch."""
    code = "import sys, fsdp_demo, fsdp_demo.records; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
