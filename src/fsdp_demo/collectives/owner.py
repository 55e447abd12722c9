"""On whose behalf a collective runs: read from the stack of the function that issues it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fsdp_demo.units import clean_name, find_units

if TYPE_CHECKING:
    from torch import nn

# The functions of FSDP that issue a unit's collectives, by module and name, and the local variable
# in which each holds the unit: a `FlatParamHandle` (FSDP1) or an `FSDPParamGroup` (FSDP2).  A
# prefetch calls the same functions, with the unit that it prefetches.
ISSUERS = {
    ("torch.distributed.fsdp._flat_param", "_all_gather_flat_param"): "self",
    ("torch.distributed.fsdp._flat_param", "unshard_grad"): "self",
    ("torch.distributed.fsdp._runtime_utils", "_reduce_grad"): "handle",
    ("torch.distributed.fsdp._runtime_utils", "_reduce_grad_no_shard"): "handle",
    ("torch.distributed.fsdp._fully_shard._fsdp_param_group", "unshard"): "self",
    ("torch.distributed.fsdp._fully_shard._fsdp_param_group", "post_backward"): "self",
}
NAMES = frozenset(name for _, name in ISSUERS)


class Owners:
    """The units of one model, by the object that torch's functions hold."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.names: dict[int, str | None] = {
            id(unit.handle): unit.name for unit in find_units(model) if unit.handle is not None
        }

    def find(self) -> str | None:
        """Return the unit that the calling code works for; None when it works for none.

        Nothing of torch is replaced: it looks up the stack for one of `ISSUERS`.
        """
        frame = sys._getframe(1)  # noqa: SLF001  # the documented way to the stack
        while frame is not None:
            name = frame.f_code.co_name
            if name in NAMES:
                variable = ISSUERS.get((frame.f_globals.get("__name__", ""), name))
                if variable is not None:
                    return self.name(frame.f_locals[variable])
            frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
        return None

    def name(self, holder: Any) -> str | None:  # noqa: ANN401  # torch's own classes
        """Return the unit of a handle or a parameter group; None for another model's."""
        if id(holder) not in self.names:
            # FSDP2's groups are not listed beforehand: they name their module themselves.
            modules = getattr(holder, "modules", ())
            self.names[id(holder)] = next(
                (
                    clean_name(name)
                    for name, module in self.model.named_modules()
                    if any(module is own for own in modules)
                ),
                None,
            )
        return self.names[id(holder)]
