"""The command `python -m fsdp_demo plan`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from torch.distributed.fsdp import BackwardPrefetch, ShardingStrategy

from fsdp_demo.planner.errors import PlanError
from fsdp_demo.planner.inputs import (
    choose_mesh,
    find_object,
    make_mesh,
    make_model,
    make_policy,
    make_precision,
)
from fsdp_demo.planner.make import plan
from fsdp_demo.planner.policy import is_hybrid
from fsdp_demo.planner.shardmap import draw_shards, write_svg
from fsdp_demo.planner.tables import compare_plans, list_collectives, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdp_demo.planner.result import Plan

NAME = "python -m fsdp_demo plan"
PREFETCH = {
    "pre": BackwardPrefetch.BACKWARD_PRE,
    "post": BackwardPrefetch.BACKWARD_POST,
    "none": None,
}


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the complaint, and exit with 2."""
        print(f"{NAME}: error: {message}", file=sys.stderr)
        sys.exit(2)


def make_parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(prog=NAME, description="Predict what FSDP of torch 2.2.2 will do with a model.")
    add = parser.add_argument
    add("model", metavar="module:factory", help="a function that makes the model, or the model")
    add("--world", type=int, nargs="+", required=True, help="the world size")
    units = "classes of modules that become units, as in Block,Head; none; always; size:N"
    add("--policy", nargs="+", default=["none"], help=units)
    strategies = ", ".join(ShardingStrategy.__members__)
    add("--strategy", nargs="+", default=["FULL_SHARD"], help=strategies)
    add(
        "--compare",
        action="store_true",
        help="lay several worlds, policies, strategies side by side",
    )
    add("--rank", type=int, default=0, help="the rank to plan for")
    meshes = "replicas x shards of the hybrid strategies, as in 2x4; for several worlds, one each"
    add("--mesh", nargs="+", default=[], help=meshes)
    add("--use-orig-params", action="store_true")
    add("--param-dtype", help="as in bfloat16")
    add("--reduce-dtype", help="likewise")
    add("--backward-prefetch", choices=tuple(PREFETCH), default="pre")
    add("--forward-prefetch", action="store_true")
    add(
        "--example",
        metavar="module:factory",
        help="makes the model's arguments: its forward is run",
    )
    add("--device", default="meta", help="where the model is made; meta takes no memory")
    add("--steps", type=int, default=1, help="optimizer steps")
    add("--accumulate", type=int, default=1, help="backwards in a step")
    add("--no-sync", action="store_true", help="all but the last backward under no_sync()")
    add("--forwards", type=int, default=1, help="forwards before each backward")
    add("--order", action="store_true", help="list the collectives in their order")
    add("--json", action="store_true", help="print the whole plan as JSON")
    add("--svg", metavar="FILE", help="draw the shards into a file")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status: 2 for bad input, of which it prints one line."""
    options = make_parser().parse_args(arguments)
    try:
        return _run(options)
    except PlanError as error:
        print(f"{NAME}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    several = [name for name in ("world", "policy", "strategy") if len(getattr(options, name)) > 1]
    if several and not options.compare:
        raise PlanError(f"several values of --{several[0]}: add --compare to lay them side by side")
    if options.compare and (options.json or options.svg or options.order):
        raise PlanError("--compare prints a table only: leave out --json, --svg and --order")
    meshes = [make_mesh(word) for word in options.mesh]
    if meshes and not any(is_hybrid(strategy) for strategy in options.strategy):
        raise PlanError("--mesh is for hybrid strategies: add --strategy HYBRID_SHARD")
    model = make_model(options.model, options.device)
    example = None if options.example is None else find_object(options.example)
    if callable(example):
        example = example()
    shared: dict[str, Any] = {
        "rank": options.rank,
        "mixed_precision": make_precision(options.param_dtype, options.reduce_dtype),
        "use_orig_params": options.use_orig_params,
        "backward_prefetch": PREFETCH[options.backward_prefetch],
        "forward_prefetch": options.forward_prefetch,
        "example": example,
        "steps": options.steps,
        "accumulate": options.accumulate,
        "no_sync": options.no_sync,
        "forwards": options.forwards,
    }
    plans = [
        (
            policy,
            strategy,
            plan(
                model,
                world=world,
                policy=make_policy(policy, model),
                strategy=strategy,
                mesh=choose_mesh(meshes, world) if is_hybrid(strategy) else None,
                **shared,
            ),
        )
        for policy in options.policy
        for strategy in options.strategy
        for world in options.world
    ]
    if options.compare:
        print(compare_plans(plans))
        return 0
    made = plans[0][2]
    if options.svg is not None:
        try:
            Path(options.svg).write_text(write_svg(draw_shards(made)), encoding="utf-8")
        except OSError as error:
            raise PlanError(f"--svg {options.svg}: {error.strerror}") from error
    print(json.dumps(to_json(made), indent=1) if options.json else table_of(made))
    if options.order and not options.json:
        print(f"\n{list_collectives(made)}")
    return 0


def to_json(made: Plan) -> dict[str, Any]:
    """Return the whole plan in JSON's types, with this rank's shards."""
    shards = [
        made.shard(unit.name)
        for unit in made.units
        if unit.flat_parameter is not None and made.rank in unit.ranks
    ]
    return {
        "torch": "2.2.2",
        "world": made.world,
        "rank": made.rank,
        "units": [dataclasses.asdict(unit) for unit in made.units],
        "shards": [dataclasses.asdict(shard) for shard in shards],
        "ignored": [dataclasses.asdict(parameter) for parameter in made.ignored],
        "collectives": made.collectives and [dataclasses.asdict(c) for c in made.collectives],
        "memory": made.memory and [dataclasses.asdict(event) for event in made.memory],
        "rest_nbytes": made.rest_nbytes,
        "received_nbytes": made.received_nbytes,
        "peak_nbytes": {phase: made.peak_nbytes(phase) for phase in ("forward", "backward")},
        "unknown": made.unknown,
        "assumed": made.assumed,
        "notes": list(made.notes),
    }
