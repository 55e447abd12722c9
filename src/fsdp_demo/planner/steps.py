"""Run a planned model's steps on the meta device."""

# ruff: noqa: ANN401 - a model takes and returns whatever it likes

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.utils import _apply_to_tensors
from torch.utils import checkpoint

from fsdp_demo.patches import replaced
from fsdp_demo.planner.errors import PlanError, RefusedRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsdp_demo.planner.runtime import Run
    from fsdp_demo.planner.unit import PlannedUnit

    Loss = Callable[[Any], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Steps:
    """What is run.

    Attributes:
        steps: optimizer steps; gradients are cleared between them.
        accumulate: backwards in a step.
        no_sync: whether all but a step's last backward run under `no_sync()`.
        forwards: forwards before each backward, whose losses are added.
        backward: False for forwards alone, under `torch.no_grad()`.
    """

    steps: int = 1
    accumulate: int = 1
    no_sync: bool = False
    forwards: int = 1
    backward: bool = True

    def __post_init__(self) -> None:
        """Refuse what is no number of steps."""
        for name in ("steps", "accumulate", "forwards"):
            if getattr(self, name) < 1:
                raise PlanError(f"{name}={getattr(self, name)}: give 1 or more")


def run_steps(
    root: PlannedUnit,
    run: Run,
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    loss: Loss,
    what: Steps,
) -> bool:
    """Run the steps; return whether there was a backward.

    Raises:
        RefusedRunError: torch's runtime would raise.
        Exception: whatever the model's own forward raises on the meta device.
    """
    ran = False
    with torch.set_grad_enabled(what.backward), _checkpoints_on_meta():
        run.record.write("start", None)
        for step in range(what.steps):
            if step:
                clear_gradients(run)
            for index in range(what.accumulate):
                synced = not what.no_sync or index == what.accumulate - 1
                for unit in run.units:
                    unit.sync_gradients = synced
                losses = [loss(root(*inputs[0], **inputs[1])) for _ in range(what.forwards)]
                wanted = [value for value in losses if value.requires_grad]
                if wanted:
                    # Not `Tensor.backward`, which leaves a default device behind while it runs.
                    torch.autograd.backward(torch.stack(wanted).sum())
                    ran = True
        run.record.write("end", None)
    return ran


def clear_gradients(run: Run) -> None:
    """`optimizer.zero_grad()`: an original's gradient goes now, FSDP's own at the next forward."""
    for handle in run.handles:
        handle.originals.grad = None
        if not handle.use_orig_params:
            handle.flat.grad = None
        run.record.refresh(handle)


def add_outputs(output: Any) -> torch.Tensor:  # whatever a forward returns
    """Return the sum of all numbers of an output that want a gradient."""
    sums: list[torch.Tensor] = []

    def add(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.requires_grad:
            sums.append(tensor.float().sum())
        return tensor

    _apply_to_tensors(add, output)
    return torch.stack(sums).sum() if sums else torch.zeros((), device="meta")


def move_to_meta(value: Any) -> Any:  # arguments of a forward
    """Return the arguments with each tensor on the meta device."""

    def move(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to("meta").requires_grad_(tensor.requires_grad)

    return _apply_to_tensors(move, value)


@contextlib.contextmanager
def _checkpoints_on_meta() -> Iterator[None]:
    """Let torch.utils.checkpoint run: it looks for a random state on each tensor's device."""

    def leave_out(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: original(*(a for a in args if not _is_meta(a)))

    with (
        replaced(checkpoint, "_infer_device_type", leave_out),
        replaced(checkpoint, "get_device_states", leave_out),
    ):
        yield


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


__all__ = ["RefusedRunError", "Steps", "add_outputs", "move_to_meta", "run_steps"]
