"""Predict what FSDP will do with a model: `plan` makes a `Plan`, before anything runs.

Which modules become units is decided by torch's own policy code (`policy`), on a copy of the model
without numbers (`copies`).  Each unit (`unit`) lays out its flat parameter (`flat`), and shards are
cut when they are asked for (`shards`).  Then a step is run on the meta device (`steps`; `skeleton`
where no example is given): `runtime`, `handle`, `prefetch` and `reduction` hold the rules of FSDP's
runtime, `record` what came of it.  No FSDP module is built and no process group made.
"""

from fsdp_demo.planner.errors import PlanError
from fsdp_demo.planner.make import plan
from fsdp_demo.planner.result import Plan

__all__ = ["Plan", "PlanError", "plan"]
