"""Make a plan of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.fsdp import BackwardPrefetch, ShardingStrategy

from fsdp_demo.planner.copies import copy_model
from fsdp_demo.planner.errors import PlanError, RefusedRunError
from fsdp_demo.planner.groups import World
from fsdp_demo.planner.notes import (
    explain_failure,
    find_left_behind,
    find_never_run,
    list_ignored,
    note_surprises,
    note_version,
)
from fsdp_demo.planner.policy import read_strategy, wrap_copy
from fsdp_demo.planner.result import Plan
from fsdp_demo.planner.runtime import Run
from fsdp_demo.planner.skeleton import ASSUMED, assume_forwards, make_input
from fsdp_demo.planner.steps import Steps, add_outputs, move_to_meta, run_steps
from fsdp_demo.planner.unit import PlannedUnit, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.distributed.fsdp import MixedPrecision

    from fsdp_demo.planner.policy import WrapPolicy
    from fsdp_demo.planner.steps import Loss

Example = torch.Tensor | tuple[Any, ...] | dict[str, Any]


def plan(  # noqa: PLR0913  # FSDP's constructor has as many
    model: nn.Module,
    *,
    world: int,
    policy: WrapPolicy = None,
    strategy: ShardingStrategy | str = ShardingStrategy.FULL_SHARD,
    rank: int = 0,
    mesh: Sequence[int] | Sequence[Sequence[int]] | None = None,
    mixed_precision: MixedPrecision | None = None,
    use_orig_params: bool = False,
    ignored_states: Iterable[nn.Module | nn.Parameter] | None = None,
    ignored_modules: Iterable[nn.Module] | None = None,
    backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
    forward_prefetch: bool = False,
    example: Example | None = None,
    loss: Loss = add_outputs,
    steps: int = 1,
    accumulate: int = 1,
    no_sync: bool = False,
    forwards: int = 1,
    backward: bool = True,
) -> Plan:
    """Predict what FSDP of torch 2.2.2 will do with a model, without FSDP and without ranks.

    The units come from torch's own wrap policy code, run on a copy of the model without numbers;
    the rest follows rules read from torch's source, which each module of `fsdp_demo.planner` names.
    Given an example, the model's own forward and backward are run with it, without numbers too, and
    the plan is that of this call.  Without one, the order of units is assumed, as the notes then
    say.  The model is not changed.

    Args:
        model: the plain model, on any device.
        world: the world size.
        policy: what `FullyShardedDataParallel` takes as `auto_wrap_policy`.
        strategy: torch's sharding strategy, or its name.
        rank: the rank to plan for.
        mesh: for hybrid strategies `(replicas, shards)`, or its rows of ranks.
        mixed_precision: as for FSDP; so are the five arguments after it.
        use_orig_params: likewise.
        ignored_states: likewise.
        ignored_modules: likewise.
        backward_prefetch: likewise.
        forward_prefetch: likewise.
        example: what the model is called with: a tensor, a tuple of arguments or a dict of named
            ones.  The model's forward and backward are then run, on the meta device.
        loss: makes one number of an output; by default the sum of all it holds.
        steps: optimizer steps to plan; gradients are cleared between them.
        accumulate: backwards in a step.
        no_sync: all but a step's last backward run under `no_sync()`.
        forwards: forwards before each backward.
        backward: False for a forward under `torch.no_grad()`.

    Returns:
        The `Plan`.

    Raises:
        PlanError: torch would refuse this model or these arguments; or they contradict each other.

    """
    what = Steps(steps, accumulate, no_sync, forwards, backward)
    where = World(world, rank, mesh)
    copied = copy_model(model)
    options = {
        "setting": Setting(where, copied.names),
        "sharding_strategy": read_strategy(strategy),
        "mixed_precision": mixed_precision,
        "backward_prefetch": backward_prefetch,
        "forward_prefetch": forward_prefetch,
        "use_orig_params": use_orig_params,
    }
    root, warned = wrap_copy(copied, policy, ignored_states, ignored_modules, options)
    units = [module for module in root.modules() if isinstance(module, PlannedUnit)]
    records = tuple(unit.record for unit in units)
    if len({unit.use_orig_params for unit in units}) > 1:
        raise PlanError(
            "Expects one homogeneous value for _use_orig_params but got {False, True}: give all"
            " units the same use_orig_params"
        )
    ignored = list_ignored(root, units)
    notes = note_version() + note_surprises(units, records, policy)
    notes += [warning.strip().splitlines()[0] for warning in warned]
    run = Run(units)
    unknown = find_never_run(units) or find_left_behind(root, units)
    if example is None:
        assume_forwards(copied)
        notes.insert(0, ASSUMED)
    try:
        if unknown is None and not _run(root, run, example, loss, what) and backward:
            notes.append("no output wants a gradient: there is no backward")
    except RefusedRunError as error:
        unknown = f"torch fails as it runs: {error}"
    except Exception as error:  # noqa: BLE001  # the model's own forward may raise anything
        unknown = f"the model can't be run on the meta device: {explain_failure(error)}"
    finally:
        run.close()
    return Plan(
        world=world,
        rank=rank,
        units=records,
        ignored=ignored,
        collectives=None if unknown else tuple(run.record.collectives),
        unknown=unknown,
        assumed=example is None,
        notes=tuple(notes),
        moments=None if unknown else tuple(run.record.moments),
    )


def _run(root: PlannedUnit, run: Run, example: Example | None, loss: Loss, what: Steps) -> bool:
    """Run the steps, with the example or with the assumed forwards."""
    if example is None:
        return run_steps(root, run, ((make_input(),), {}), add_outputs, what)
    inputs: Any = ((), {})
    if isinstance(example, dict):
        inputs = ((), move_to_meta(example))
    else:
        inputs = (move_to_meta(example if isinstance(example, tuple) else (example,)), {})
    with torch.device("meta"):
        return run_steps(root, run, inputs, loss, what)
