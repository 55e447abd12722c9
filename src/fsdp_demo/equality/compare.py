"""Hold a sharded run to the same model run whole in one process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

from fsdp_demo.layout import read_layout
from fsdp_demo.units import clean_name, find_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn


@dataclass(frozen=True, slots=True)
class Difference:
    """How far tensors of the sharded run are from those of the plain one.

    Attributes:
        largest: the largest absolute difference; infinite where names or shapes differ.
        scale: the largest absolute number of the plain run.
        identical: whether all numbers are the same to the last bit, the sign of a zero included.

    """

    largest: float
    scale: float
    identical: bool


@dataclass(frozen=True, slots=True)
class Differences:
    """How far the sharded run is from the plain one.

    Attributes:
        output: over the numbers of this rank's output.
        gradient: over all gradients, gathered.
        parameter: over all parameters, gathered, after one step of SGD.

    """

    output: Difference
    gradient: Difference
    parameter: Difference

    @property
    def largest(self) -> float:
        """The largest of the three."""
        return max(self.output.largest, self.gradient.largest, self.parameter.largest)


def compare_with_plain(
    build: Callable[[], nn.Module],
    wrap: Callable[[nn.Module], nn.Module],
    batches: Sequence[torch.Tensor],
    loss: Callable[[torch.Tensor], torch.Tensor] = torch.sum,
    lr: float = 0.1,
) -> Differences:
    """Run one step of the wrapped model on this rank, and of the plain model on all ranks' data.

    FSDP averages gradients over all data-parallel ranks: `_reduce_grad` divides by
    `_gradient_predivide_factor` before the reduction and by `_gradient_postdivide_factor` after it,
    whose product is the number of ranks (`_init_process_group_state` in
    torch.distributed.fsdp._init_utils).  So the plain model's gradient is the mean over the ranks'
    batches.  An ignored parameter is not reduced: its gradient is that of this rank's own batch.

    Every rank of the default group calls this together: gradients are gathered.

    Args:
        build: makes the model, the same each time it is called and on each rank (seed in it).
        wrap: returns the model wrapped by FSDP.
        batches: each rank's input, in rank order.
        loss: makes one number of the model's output.
        lr: SGD's learning rate.

    Returns:
        The differences that this rank sees.

    Raises:
        ValueError: the number of batches is not the number of ranks.

    """
    rank, world = dist.get_rank(), dist.get_world_size()
    if len(batches) != world:
        raise ValueError(f"{len(batches)} batches for {world} ranks: give one for each rank")
    plain = build()
    outputs, gradients = _run_plain(plain, batches, loss)
    model = wrap(build())
    output = model(batches[rank])
    loss(output).backward()
    own = _list_own_gradients(model)
    for name, parameter in _name_parameters(plain).items():
        each = [of_rank[name] for of_rank in gradients]
        parameter.grad = each[rank] if name in own else _average(each)
    difference = compare_tensors(gather_gradients(model) | own, _list_gradients(plain))
    for run in (plain, model):
        torch.optim.SGD([p for p in run.parameters() if p.requires_grad], lr=lr).step()
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        after = {name: p.detach().clone() for name, p in _name_parameters(model).items()}
    return Differences(
        output=compare_tensors({"": output.detach()}, {"": outputs[rank]}),
        gradient=difference,
        parameter=compare_tensors(
            after, {n: p.detach() for n, p in _name_parameters(plain).items()}
        ),
    )


def gather_gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """Gather the reduced gradients of an FSDP model after its backward, by parameter name.

    Every rank of each sharding group calls it together.  `summon_full_params(with_grads=True)`
    does it for `use_orig_params=True` alone.  A frozen parameter, or a unit that no backward
    reached, has none.
    """
    layout = read_layout(model, ranks=())
    gathered: dict[str, torch.Tensor] = {}
    for live, unit in zip(find_units(model), layout.units, strict=True):
        if unit.flat_parameter is None or (grad := live.handle.flat_param.grad) is None:
            continue
        flat = grad.new_empty(unit.flat_parameter.numel_padded)
        if live.handle.uses_sharded_strategy:
            dist.all_gather(list(flat.chunk(len(unit.ranks))), grad, live.state.process_group)
        else:
            flat.copy_(grad)
        for part in unit.flat_parameter.parameters:
            if part.requires_grad:
                numbers = flat[part.offset : part.offset + part.numel]
                gathered[part.name] = (
                    numbers.view(part.shape)
                    if part.strides is None
                    else numbers.as_strided(part.shape, part.strides)
                )
    return gathered


def _run_plain(
    plain: nn.Module,
    batches: Sequence[torch.Tensor],
    loss: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor | None]]]:
    """Return the plain model's output and gradients on each rank's batch."""
    outputs, gradients = [], []
    for batch in batches:
        plain.zero_grad(set_to_none=True)
        output = plain(batch)
        loss(output).backward()
        outputs.append(output.detach())
        gradients.append({name: p.grad for name, p in _name_parameters(plain).items()})
    return outputs, gradients


def _name_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters by their clean names; a checkpoint's wrapper changes names too."""
    return {clean_name(name): parameter for name, parameter in model.named_parameters()}


def _list_gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    named = _name_parameters(model).items()
    return {name: parameter.grad for name, parameter in named if parameter.grad is not None}


def _average(gradients: list[torch.Tensor | None]) -> torch.Tensor | None:
    """Return the mean over ranks; None where no rank has a gradient."""
    present = [gradient for gradient in gradients if gradient is not None]
    return sum(present[1:], start=present[0]) / len(gradients) if present else None


def _list_own_gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the gradients of the parameters that no unit manages."""
    names = {parameter.name for parameter in read_layout(model, ranks=()).ignored}
    named = _list_gradients(model).items()
    return {name: gradient.clone() for name, gradient in named if name in names}


def compare_tensors(
    measured: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]
) -> Difference:
    """Compare tensors by name; what either side lacks is an infinite difference."""
    scale = max((_find_largest(tensor) for tensor in wanted.values()), default=0.0)
    shapes = {name: tensor.shape for name, tensor in measured.items()}
    if shapes != {name: tensor.shape for name, tensor in wanted.items()}:
        return Difference(math.inf, scale, identical=False)
    pairs = [(measured[name], wanted[name]) for name in wanted]
    return Difference(
        largest=max((_find_largest(one - other) for one, other in pairs), default=0.0),
        scale=scale,
        identical=all(_list_bytes(one) == _list_bytes(other) for one, other in pairs),
    )


def _find_largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _list_bytes(tensor: torch.Tensor) -> list[int]:
    flat = tensor.contiguous().flatten()
    return flat.view(torch.uint8).tolist() if flat.numel() else []
