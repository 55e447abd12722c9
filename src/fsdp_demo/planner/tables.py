"""Write plans out as tables, for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from fsdp_demo.records.words import name_ranks, name_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fsdp_demo.planner.result import Plan
    from fsdp_demo.records import Phase, Unit

COLUMNS = 80
MOST_NAMES = 4  # on one line
UNKNOWN = "unknown"
PHASES: tuple[Phase, ...] = ("forward", "backward")


def lay_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return rows in columns as wide as they need; the first `left` are flush left."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def number(value: int | None) -> str:
    """Return a number with its thousands apart, or "unknown"."""
    return UNKNOWN if value is None else f"{value:,}"


def table_of(plan: Plan) -> str:
    """Return a plan: its units, its collectives and bytes, its notes."""
    strategies = {unit.strategy for unit in plan.units}
    chosen = ", ".join(sorted(strategies))
    uniform = len(strategies) == 1
    head = ("unit", "class", *(() if uniform else ("strategy",)))
    numbers = ("dtype", "params", "numbers", "padding", "in a shard")
    rows = _fold(plan.units, with_strategy=not uniform)
    return "\n\n".join(
        (
            f"rank {plan.rank} of {plan.world}, {chosen}; rules of torch 2.2.2",
            lay_table((*head, *numbers), rows, left=len(head)),
            lay_table(("", *PHASES), _list_figures(plan)),
            _list_totals(plan),
            *map(_fold_text, _list_said(plan)),
        )
    )


def list_collectives(plan: Plan) -> str:
    """Return the collectives in their order, a line each."""
    return "\n".join(str(collective) for collective in plan.collectives or ())


def _fold(units: Sequence[Unit], *, with_strategy: bool) -> list[tuple[str, ...]]:
    """Return a row for each unit; neighbors that differ in nothing but their name share one."""
    rows: list[tuple[list[str], tuple[str, ...]]] = []
    for unit in units:
        row = _describe(unit, with_strategy=with_strategy)
        if rows and rows[-1][1] == row and unit.name:
            rows[-1][0].append(unit.name)
        else:
            rows.append(([name_unit(unit.name)], row))
    return [
        (names[0] if len(names) == 1 else f"{names[0]} ({len(names)} alike)", *row)
        for names, row in rows
    ]


def _describe(unit: Unit, *, with_strategy: bool) -> tuple[str, ...]:
    flat = unit.flat_parameter
    start = (unit.class_name, unit.strategy) if with_strategy else (unit.class_name,)
    if flat is None:
        return (*start, "-", "0", "0", "0", "0")
    gathered = "" if flat.gathered_dtype == flat.dtype else f" as {flat.gathered_dtype}"
    return (
        *start,
        flat.dtype + gathered,
        number(len(flat.parameters)),
        number(sum(parameter.numel for parameter in flat.parameters)),
        number(flat.padding_numel),
        number(flat.shard_numel),
    )


def _list_figures(plan: Plan) -> list[tuple[str, ...]]:
    """Return a row for each kind of collective, and one for the peak."""
    kinds = ("all-gather", "reduce-scatter", "all-reduce")
    rows = [
        (f"{kind}s", *(number(plan.count(kind, phase)) for phase in PHASES))
        for kind in kinds
        if plan.count(kind) != 0
    ]
    rows.append(
        ("peak of unsharded bytes", *(number(plan.peak_nbytes(phase)) for phase in PHASES)),
    )
    return rows


def _list_totals(plan: Plan) -> str:
    ranks = {unit.ranks for unit in plan.units}
    lines = [
        f"bytes at rest       {number(plan.rest_nbytes)}",
        f"bytes received      {number(plan.received_nbytes)}",
        f"sharding groups     {'; '.join(name_ranks(group) for group in ranks)}",
    ]
    for phase in PHASES:
        event = plan.peak_event(phase)
        if event is None or not event.unsharded:
            continue
        names = [name_unit(unit) for unit in event.unsharded]
        shown = ", ".join(names[:MOST_NAMES])
        if more := len(names) - MOST_NAMES:
            shown += f" and {more} more" if more > 0 else ""
        lines.append(f"{phase + ' peak':20}{shown}")
    if plan.ignored:
        lines.append("ignored             " + ", ".join(p.name for p in plan.ignored))
    return "\n".join(lines)


def compare_plans(plans: Sequence[tuple[str, str, Plan]]) -> str:
    """Return plans side by side; each comes with the words for its policy and its strategy.

    Their notes stand below, each once; a policy that they all have is said once too.
    """
    policies = {policy for policy, _, _ in plans}
    several = len(policies) > 1
    head = ("strategy", "world", "gathers", "received", "at rest", "peak fwd", "peak bwd")
    rows = [
        (*((policy,) if several else ()), strategy, *_list_choice(plan))
        for policy, strategy, plan in plans
    ]
    table = lay_table((*(("policy",) if several else ()), *head), rows, left=1 + several)
    figures = (
        f"For rank {plans[0][2].rank}: all-gathers in forward + backward; bytes received from"
        " others in a step, bytes of parameters at rest, and the peak of unsharded parameters in"
        " each phase."
    )
    legend = [figures]
    if not several:
        legend.insert(0, f"Policy: {policies.pop()}.")
    if any("x" in row[1 + several] for row in rows):
        legend.append("A mesh is written as replicas x shards.")
    said = dict.fromkeys(line for _, _, plan in plans for line in _list_said(plan))
    return "\n\n".join((table, *map(_fold_text, (" ".join(legend), *said))))


def _list_choice(plan: Plan) -> tuple[str, ...]:
    """Return what a plan is chosen by: its world, or its mesh, and its figures."""
    group = plan.units[0]
    gathers = [plan.count("all-gather", phase) for phase in PHASES]
    replicas = len(group.replica_ranks)
    return (
        f"{replicas}x{len(group.ranks)}" if replicas else str(plan.world),
        UNKNOWN if plan.collectives is None else " + ".join(map(str, gathers)),
        short_nbytes(plan.received_nbytes),
        short_nbytes(plan.rest_nbytes),
        *(short_nbytes(plan.peak_nbytes(phase)) for phase in PHASES),
    )


def _list_said(plan: Plan) -> list[str]:
    """Return what a plan says besides its figures."""
    said = [f"note: {note}" for note in plan.notes]
    if plan.unknown is not None:
        said.append(f"unknown: collectives and peaks: {plan.unknown}")
    return said


def _fold_text(text: str) -> str:
    return textwrap.fill(text, COLUMNS, subsequent_indent="  " if text[0].islower() else "")


def short_nbytes(value: int | None) -> str:
    """Return bytes with three digits: `612 B`, `1.86 GB`; "unknown" for None."""
    if value is None:
        return UNKNOWN
    size, unit = float(value), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:  # noqa: PLR2004  # what rounds to 1000
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} B" if unit == "B" else f"{size:#.3g} {unit}".replace(". ", " ")
