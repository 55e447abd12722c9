"""A module that stands in for `FullyShardedDataParallel`: it knows its parameters and gathers none.

torch's own code for wrap policies puts it where it would put an FSDP unit.
"""

# ruff: noqa: ANN401 - a module takes and returns whatever it likes
# ruff: noqa: SLF001 - nn.Module keeps its parameters in a private dict

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import ActivationWrapper
from torch.distributed.fsdp import MixedPrecision, ShardingStrategy
from torch.distributed.fsdp._common_utils import _is_fsdp_flattened

from fsdp_demo.planner.errors import PlanError
from fsdp_demo.planner.flat import check_parameters, choose_dtypes, lay_out, record_flat_parameter
from fsdp_demo.planner.handle import Handle
from fsdp_demo.planner.shards import cut_shard
from fsdp_demo.records import Unit
from fsdp_demo.records.words import name_unit
from fsdp_demo.units import unwrap_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsdp_demo.planner.groups import World
    from fsdp_demo.planner.runtime import Run

# Arguments of FSDP's constructor that change nothing a plan holds.
HARMLESS = (
    "auto_wrap_policy",
    "param_init_fn",
    "device_id",
    "sync_module_states",
    "limit_all_gathers",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What all units of a plan share.

    Attributes:
        world: the ranks.
        names: for the id of each module and parameter, its name in the model.
    """

    world: World
    names: dict[int, str]


class PlannedUnit(nn.Module):
    """What FSDP's constructor makes of a module, without its numbers.

    Read from `FullyShardedDataParallel.__init__` and, in torch.distributed.fsdp._init_utils,
    `_init_ignored_module_states`, `_init_core_state` and `_init_param_handle_from_module`.
    """

    def __init__(  # noqa: PLR0913  # those of FSDP's constructor
        self,
        module: nn.Module,
        *,
        setting: Setting,
        sharding_strategy: ShardingStrategy | None = None,
        mixed_precision: MixedPrecision | None = None,
        backward_prefetch: Any = None,  # torch's enum, or None
        forward_prefetch: bool = False,
        use_orig_params: bool = False,
        ignored_states: Iterable[nn.Parameter] | None = None,
        ignored_modules: Iterable[nn.Module] = (),
        **others: Any,  # whatever a CustomPolicy gives
    ) -> None:
        super().__init__()
        self.name = setting.names[id(module)]
        if wrong := [name for name in others if name not in HARMLESS]:
            raise PlanError(
                f"unit {name_unit(self.name)}: the policy gives it {', '.join(wrong)}, which a plan"
                " can't follow: leave it out"
            )
        self.ignored_modules = find_ignored_modules(module, ignored_modules)
        self.ignored_params = find_ignored_params(
            module, self.ignored_modules, ignored_states or ()
        )
        wanted = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.group = setting.world.find_group(wanted)
        # "We clamp the strategy to `NO_SHARD` for world size of 1": the sharding group's size.
        self.strategy = wanted if len(self.group.ranks) > 1 else ShardingStrategy.NO_SHARD
        self.precision = mixed_precision or MixedPrecision()
        self.backward_prefetch = backward_prefetch
        self.forward_prefetch = forward_prefetch
        self.use_orig_params = use_orig_params
        self.handle = self._make_handle(module, setting)
        self._fsdp_wrapped_module = module
        self.record = self._describe(module)
        if self.handle is not None and use_orig_params:
            held = cut_shard(self.record, setting.world.rank).slices
            numels = {part.name: part.stop - part.start for part in held}
            parameters = self.record.flat_parameter.parameters if self.record.flat_parameter else ()
            self.handle.originals.cut([numels.get(p.name, 0) for p in parameters])
        if self.handle is not None and not use_orig_params:
            # `_register_flat_param`: to the module inside an activation checkpoint's wrapper.
            registered = unwrap_checkpoint(module)._parameters  # as torch does
            registered["_flat_param"] = self.handle.flat
        self.run: Run | None = None
        self.is_root = False
        self.idle = True
        self.sync_gradients = True
        self.callback_queued = False

    def _make_handle(self, module: nn.Module, setting: Setting) -> Handle | None:
        params = [
            param
            for param in module.parameters()
            if param not in self.ignored_params and not _is_fsdp_flattened(param)
        ]
        if not params:
            return None
        check_parameters(self.name, params, setting.names, use_orig_params=self.use_orig_params)
        contents = lay_out(
            module,
            params,
            choose_dtypes(params[0].dtype, self.precision),
            len(self.group.ranks),
            use_orig_params=self.use_orig_params,
        )
        if not contents.numel:
            raise PlanError(
                f"unit {name_unit(self.name)}: unsharded_start_idx: 0 unsharded_end_idx: -1. All of"
                " its parameters are empty: pass them in ignored_states"
            )
        return Handle(
            self.name, contents, self.group, self.strategy, use_orig_params=self.use_orig_params
        )

    def _describe(self, module: nn.Module) -> Unit:
        inner = unwrap_checkpoint(module)
        flat = None
        if self.handle is not None:
            flat = record_flat_parameter(
                self.name,
                self.handle.contents,
                self.handle.shard_numel,
                self.handle.numel_padded,
                use_orig_params=self.use_orig_params,
            )
        return Unit(
            name=self.name,
            class_name="FullyShardedDataParallel"
            if isinstance(inner, PlannedUnit)
            else type(inner).__name__,
            strategy=self.strategy.name,
            ranks=self.group.ranks,
            replica_ranks=self.group.replica_ranks,
            flat_parameter=flat,
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # the module's own
        """Run the module as the planned run does."""
        assert self.run is not None  # noqa: S101  # `Run` sets it for all units
        args, kwargs = self.run.enter(self, args, kwargs)
        output = self._fsdp_wrapped_module(*args, **kwargs)
        return self.run.leave(self, output)

    def __getattr__(self, name: str) -> Any:  # whatever the module has
        """Return what the module has: `FullyShardedDataParallel.__getattr__`."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            module = self._fsdp_wrapped_module
            if isinstance(module, ActivationWrapper):
                module = unwrap_checkpoint(module)
            return getattr(module, name)

    def __getitem__(self, index: Any) -> Any:
        """Return `module[index]`, for an `nn.Sequential`."""
        return self._fsdp_wrapped_module[index]  # type: ignore[index]


def find_ignored_modules(module: nn.Module, given: Iterable[nn.Module]) -> set[nn.Module]:
    """Return all ignored modules: `_get_ignored_modules`, which takes in those of inner units."""
    found = {
        child for root in given for child in root.modules() if not isinstance(child, PlannedUnit)
    }
    for inner in module.modules():
        if isinstance(inner, PlannedUnit):
            found |= inner.ignored_modules
    return found


def find_ignored_params(
    module: nn.Module, modules: set[nn.Module], given: Iterable[nn.Parameter]
) -> set[nn.Parameter]:
    """Return all ignored parameters: `_get_ignored_params`."""
    found = {param for ignored in modules for param in ignored.parameters()} | set(given)
    found = {param for param in found if not _is_fsdp_flattened(param)}
    for inner in module.modules():
        if isinstance(inner, PlannedUnit):
            found |= inner.ignored_params
    return found
