"""One moment of a step, and what a rank held then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fsdp_demo.records.words import name_unit

if TYPE_CHECKING:
    from fsdp_demo.records.collective import Phase

EventKind = Literal[
    "start",
    "gather",
    "forward-start",
    "forward-end",
    "free",
    "backward-start",
    "reduce",
    "reduced",
    "end",
]


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One event, and what this rank's FSDP units held right after it.

    Attributes:
        kind: "start" and "end" of the record; a unit's parameters were gathered ("gather") or
            freed ("free"); its forward or backward begins, its forward ended; its gradient is about
            to be reduced ("reduce": the gradient, any padded copy of it and its new shard all
            exist) or was reduced ("reduced").
        phase: as in `Collective`.
        unit: the unit it happened to; None for "start" and "end".
        unsharded: the units whose gathered parameters exist, in the order of the module tree.
            NO_SHARD gathers nothing: its whole parameters are what rests on the rank.
        unsharded_nbytes: bytes of gathered parameters.
        unsharded_grad_nbytes: bytes of gradients of full size, before their reduction.
        shard_nbytes: bytes of parameters at rest.
        grad_shard_nbytes: bytes of reduced gradients.  Under NO_SHARD a gradient is reduced in
            place, and counted here from its first moment.
    """

    kind: EventKind
    phase: Phase
    unit: str | None
    unsharded: tuple[str, ...]
    unsharded_nbytes: int
    unsharded_grad_nbytes: int
    shard_nbytes: int
    grad_shard_nbytes: int

    @property
    def nbytes(self) -> int:
        """All of its bytes together."""
        return (
            self.unsharded_nbytes
            + self.unsharded_grad_nbytes
            + self.shard_nbytes
            + self.grad_shard_nbytes
        )

    def __str__(self) -> str:
        """Return it as one line; each pair is bytes of parameters + bytes of gradients."""
        live = " ".join(name_unit(unit) for unit in self.unsharded)
        return (
            f"{self.phase:8} {self.kind:14} {name_unit(self.unit):9}"
            f" unsharded {self.unsharded_nbytes} + {self.unsharded_grad_nbytes},"
            f" shards {self.shard_nbytes} + {self.grad_shard_nbytes}"
            + (f" ({live})" if live else "")
        )
