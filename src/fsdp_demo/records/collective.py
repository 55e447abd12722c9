"""One collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fsdp_demo.records.words import name_ranks, name_unit

Kind = Literal[
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all-to-all",
    "send",
    "receive",
    "barrier",
]
Phase = Literal["forward", "backward", "outside"]


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective, as one rank issued it.

    Attributes:
        kind: what it does.
        phase: "backward" while autograd runs a backward (a forward recomputed there included),
            else "forward" while the model's forward runs, else "outside".
        unit: the unit on whose behalf it ran (for a gather, the unit that is gathered, whichever
            one computes meanwhile); `""` is the model itself, None where it is no unit's.
        ranks: the global ranks of its process group, in the group's order.
        dtype: of the tensors, as in "float32"; `""` for a barrier.
        nbytes_in: bytes of the tensors that this rank hands in.
        nbytes_out: bytes of the tensors that this rank is handed.
    """

    kind: Kind
    phase: Phase
    unit: str | None
    ranks: tuple[int, ...]
    dtype: str
    nbytes_in: int
    nbytes_out: int

    def __str__(self) -> str:
        """Return it as one line of a table."""
        return (
            f"{self.phase:8} {self.kind:14} {name_unit(self.unit):9} {self.dtype:8}"
            f" {self.nbytes_in:>5} -> {self.nbytes_out:>5} bytes, ranks {name_ranks(self.ranks)}"
        )
