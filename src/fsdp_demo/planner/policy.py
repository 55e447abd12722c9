"""Let torch's own wrap policies decide which modules of a copy become units."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp._init_utils import _check_ignored_states
from torch.distributed.fsdp._wrap_utils import _auto_wrap
from torch.distributed.fsdp.wrap import _Policy

from fsdp_demo.planner.errors import PlanError
from fsdp_demo.planner.groups import HYBRID
from fsdp_demo.planner.unit import PlannedUnit, find_ignored_modules, find_ignored_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fsdp_demo.planner.copies import ModelCopy

    WrapPolicy = Callable[..., bool] | _Policy | None


class PolicyOfOriginal(_Policy):
    """A policy that decides on the copy as `policy` decides on the original model."""

    def __init__(self, policy: _Policy, copied: ModelCopy, ignored: set[nn.Module]) -> None:
        self.policy = policy
        self.copied = copied
        self.ignored = ignored

    def _run_policy(
        self,
        root_module: nn.Module,
        ignored_modules: set[nn.Module],  # noqa: ARG002  # the original's are asked for
        root_kwargs: dict[str, Any],
    ) -> dict[nn.Module, dict[str, Any]]:
        original = self.copied.modules[id(root_module)]
        targets = self.policy._run_policy(  # noqa: SLF001  # as torch calls it
            original, self.ignored, root_kwargs
        )
        return {self.copied.copies[id(module)]: kwargs for module, kwargs in targets.items()}


def wrap_copy(
    copied: ModelCopy,
    policy: WrapPolicy,
    ignored_states: Iterable[nn.Module | nn.Parameter] | None,
    ignored_modules: Iterable[nn.Module] | None,
    options: dict[str, Any],
) -> tuple[PlannedUnit, list[str]]:
    """Wrap the copy; return its root and torch's warnings.

    torch's `_auto_wrap` (torch.distributed.fsdp._wrap_utils) does the walking and the wrapping,
    `PlannedUnit` stands where FSDP would.

    Raises:
        PlanError: what torch refuses to wrap or to flatten.
    """
    modules, params = _read_ignored(copied, ignored_states, ignored_modules)
    root = copied.model
    all_modules = find_ignored_modules(root, modules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if policy is not None:
            all_params = find_ignored_params(root, all_modules, params)
            _apply_policy(copied, policy, all_modules, all_params, options)
        unit = PlannedUnit(root, ignored_modules=modules, ignored_states=params, **options)
    return unit, [str(warning.message) for warning in caught]


def _apply_policy(
    copied: ModelCopy,
    policy: Callable[..., bool] | _Policy,
    ignored: set[nn.Module],
    params: set[nn.Parameter],
    options: dict[str, Any],
) -> None:
    root = copied.model
    on_copy: Callable[..., bool] | _Policy
    if isinstance(policy, _Policy):
        on_copy = PolicyOfOriginal(policy, copied, {copied.modules[id(m)] for m in ignored})
    else:
        decide = policy

        def on_copy(
            module: nn.Module,
            recurse: bool,  # noqa: FBT001  # as torch calls it
            nonwrapped_numel: int,
        ) -> bool:  # torch's
            original = copied.modules.get(id(module), module)
            return decide(module=original, recurse=recurse, nonwrapped_numel=nonwrapped_numel)

    try:
        _auto_wrap(
            root, on_copy, ignored, params, {**options, "ignored_states": params}, PlannedUnit
        )
    except PlanError:
        raise
    except ValueError as error:
        raise PlanError(f"{str(error).strip()}\nOr pass use_orig_params=True.") from error


def _read_ignored(
    copied: ModelCopy,
    states: Iterable[nn.Module | nn.Parameter] | None,
    modules: Iterable[nn.Module] | None,
) -> tuple[list[nn.Module], list[nn.Parameter]]:
    """Return the ignored modules and parameters of the copy; `_init_ignored_module_states`."""
    if states is not None and modules is not None:
        raise PlanError(
            "Cannot pass both ignored_modules and ignored_states at the same time."
            " Please just pass ignored_states."
        )
    given = list(states if states is not None else modules or ())
    try:
        _check_ignored_states(given, states is not None)
    except ValueError as error:
        raise PlanError(str(error)) from error
    found = [copied.copies[id(state)] for state in given if id(state) in copied.copies]
    return (
        [state for state in found if isinstance(state, nn.Module)],
        [state for state in found if isinstance(state, nn.Parameter)],
    )


def read_strategy(strategy: ShardingStrategy | str) -> ShardingStrategy:
    """Return torch's strategy of that name.

    Raises:
        PlanError: torch has none such.
    """
    if isinstance(strategy, ShardingStrategy):
        return strategy
    if strategy not in ShardingStrategy.__members__:
        names = ", ".join(ShardingStrategy.__members__)
        raise PlanError(f"no sharding strategy {strategy!r}: give one of {names}")
    return ShardingStrategy[strategy]


def is_hybrid(strategy: ShardingStrategy | str) -> bool:
    """Whether a strategy shards along one axis of a mesh and replicates along the other.

    Raises:
        PlanError: torch has no such strategy.
    """
    return read_strategy(strategy) in HYBRID
