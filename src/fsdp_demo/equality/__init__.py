"""Hold a sharded run to the same model run whole in one process."""

from fsdp_demo.equality.compare import (
    Difference,
    Differences,
    compare_with_plain,
    gather_gradients,
)
from fsdp_demo.equality.hold import UnequalError, hold_to_plain

__all__ = [
    "Difference",
    "Differences",
    "UnequalError",
    "compare_with_plain",
    "gather_gradients",
    "hold_to_plain",
]
