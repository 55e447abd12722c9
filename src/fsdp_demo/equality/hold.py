"""State on a page that its program equals the plain model: run both, or fail."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel

from fsdp_demo.equality.compare import Difference, Differences, compare_with_plain
from fsdp_demo.launch import spawn
from fsdp_demo.patches import replaced
from fsdp_demo.publish import COMPARISON_MIME, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

PARTS = {"output": "outputs", "gradient": "gradients", "parameter": "parameters"}
"""What is compared: the fields of `Differences`, and how the page calls them."""

ROUNDING = 2.0**-20
"""How far rounding may lead, as a share of the largest number: eight units in a float32's last
place.  Sums over a few ranks, in another order, stay within two."""


class UnequalError(Exception):
    """A sharded run is not the plain one; the message says in what, and by how much."""


def hold_to_plain(
    program: str,
    build: Callable[[], nn.Module],
    wrap: Callable[[nn.Module], nn.Module],
    batches: Sequence[torch.Tensor] | torch.Tensor,
) -> None:
    """Run a step on real ranks and in one plain process, and fail unless they are equal.

    See `compare_with_plain` for what is compared.  The site's page on equality lists all pages'
    comparisons, and each `FSDP(…)` in a lesson's cells must be run by one of them.

    Args:
        program: names the program in that list, unique in its page.
        build: makes the model, the same on each call and each rank (seed in it).
        wrap: wraps it, as the lesson does.
        batches: each rank's input, in rank order: as many as there are ranks.  They differ, or the
            average of their gradients would prove nothing.

    Raises:
        UnequalError: outputs, gradients or parameters after a step differ by more than rounding.
        ValueError: all ranks would get the same batch.

    """
    world = len(batches)
    if world > 1 and all(torch.equal(batch, batches[0]) for batch in batches):
        raise ValueError("the ranks' batches are all the same: give each rank another one")
    results = spawn(_compare_and_trace, world, build, wrap, list(batches))
    found = {
        field: _join([getattr(differences, field) for differences, _ in results]) for field in PARTS
    }
    for field, difference in found.items():
        if not difference.largest <= ROUNDING * difference.scale:
            raise UnequalError(
                f"{program}: the {PARTS[field]} are not the plain model's.\n"
                f"They differ by {difference.largest:.3g}; their numbers go up to"
                f" {difference.scale:.3g}, and rounding to {ROUNDING * difference.scale:.1g}."
            )
    # Whether a difference in the gradients survives the step's own rounding is luck: the pin must
    # not depend on it.
    exact = {**found, "parameter": _join([found["gradient"], found["parameter"]])}
    words = ", ".join(f"{PARTS[field]} {_describe(exact[field])}" for field in PARTS)
    text = f"{program}, {world} rank{'s' if world > 1 else ''}, against the plain model:\n  {words}"
    data = {
        "program": program,
        "world": world,
        "largest": {PARTS[field]: found[field].largest for field in PARTS},
        "identical": {PARTS[field]: found[field].identical for field in PARTS},
        "calls": sorted({call for _, calls in results for call in calls}),
    }
    if not publish(COMPARISON_MIME, data, text):
        print(text)


def _compare_and_trace(
    rank: int,  # noqa: ARG001  # a worker's form
    world: int,  # noqa: ARG001
    build: Callable[[], nn.Module],
    wrap: Callable[[nn.Module], nn.Module],
    batches: list[torch.Tensor],
) -> tuple[Differences, list[tuple[str, int]]]:
    """Compare on this rank, and note the file and line of each call of FSDP."""
    calls = []

    def tracing(original: Callable[..., None]) -> Callable[..., None]:
        def init(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # FSDP's own
            caller = sys._getframe(1)  # noqa: SLF001  # the documented way to the stack
            calls.append((caller.f_code.co_filename, caller.f_lineno))
            original(*args, **kwargs)

        return init

    with replaced(FullyShardedDataParallel, "__init__", tracing):
        return compare_with_plain(build, wrap, batches), calls


def _join(differences: list[Difference]) -> Difference:
    """Join what the ranks saw: the worst of each."""
    return Difference(
        largest=max(difference.largest for difference in differences),
        scale=max(difference.scale for difference in differences),
        identical=all(difference.identical for difference in differences),
    )


def _describe(difference: Difference) -> str:
    return "bit-identical" if difference.identical else "up to rounding"
