"""What a lesson imports: run ranks, plan, and look at what FSDP made of a model.

Importing this package imports no torch: the ranks do, and `plan` when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdp_demo.facts import fact
from fsdp_demo.launch import RankError, SpawnError, describe_setting, spawn

if TYPE_CHECKING:
    from fsdp_demo.planner import Plan, PlanError, plan

__all__ = [
    "Plan",
    "PlanError",
    "RankError",
    "SpawnError",
    "describe_setting",
    "fact",
    "plan",
    "spawn",
]


def __getattr__(name: str) -> object:
    """Import what needs torch only when it is asked for."""
    if name in ("Plan", "PlanError", "plan"):
        from fsdp_demo import planner  # noqa: PLC0415  # it imports torch

        return getattr(planner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
