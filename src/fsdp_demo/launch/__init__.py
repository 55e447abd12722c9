"""Run a worker on real ranks, and say in plain words what went wrong in which.

The process that ranks are forked from imports this package, and keeps it as it was then. So it
imports little: what only the caller's side needs is imported by `spawn` when it is called.
"""

from fsdp_demo.launch.errors import RankError, SpawnError
from fsdp_demo.launch.kernel import start_in_kernel
from fsdp_demo.launch.setting import describe_setting
from fsdp_demo.launch.spawn import spawn

__all__ = ["RankError", "SpawnError", "describe_setting", "spawn"]

start_in_kernel()
