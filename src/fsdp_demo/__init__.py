"""What a lesson imports: run ranks, and look at what FSDP made of a model.

Importing this package imports no torch: the ranks do.
"""

from fsdp_demo.facts import fact
from fsdp_demo.launch import RankError, SpawnError, describe_setting, spawn

__all__ = ["RankError", "SpawnError", "describe_setting", "fact", "spawn"]
