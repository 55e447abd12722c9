"""Run the real FSDP as one rank of a world of any size, and measure it."""

# ruff: noqa: ANN401 - policies, options and outputs are whatever torch takes and gives
# ruff: noqa: SLF001 - what a wrapped model holds is private
# ruff: noqa: PLR0911 - a policy is returned where its kind is known
# ruff: noqa: PT017 - that torch refuses is a result, not a failure

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import warnings
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)
from torch.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
)
from torch.testing._internal.distributed.fake_pg import FakeStore

from fsdp_demo.collectives import count_collectives
from fsdp_demo.layout import read_layout
from fsdp_demo.memory import record_memory
from fsdp_demo.planner import Plan, plan
from tests.plan.random_models import CLASSES, A, Case, build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdp_demo.records import Collective, Layout, MemoryEvent


@contextlib.contextmanager
def fake_world(world: int, rank: int = 0) -> Iterator[None]:
    """Be rank `rank` of `world`; nothing is sent."""
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def make_policy(described: tuple[Any, ...], model: nn.Module) -> Any:  # one each
    """Return torch's policy for a description."""
    kind, *values = described
    classes: set[type[nn.Module]] = {CLASSES[name] for name in values if name in CLASSES}
    if kind == "module":
        return ModuleWrapPolicy(classes)
    if kind == "always":
        return always_wrap_policy
    if kind == "size":
        return functools.partial(size_based_auto_wrap_policy, min_num_params=values[0])
    if kind == "transformer":
        return functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=classes)
    chosen = {
        id(m)
        for index, m in enumerate(model.modules())
        # A list has no forward, so FSDP would never gather it: a test of its own.
        if values and index % values[0] == 1 and not isinstance(m, nn.ModuleList)
    }
    if kind == "lambda":
        return functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: id(m) in chosen)
    if kind == "custom":
        return CustomPolicy(lambda m: id(m) in chosen)
    if kind == "custom-options":
        options = {"sharding_strategy": ShardingStrategy[values[1]]}
        return CustomPolicy(lambda m: options if isinstance(m, A) and id(m) in chosen else False)
    return None


def make_options(case: Case, model: nn.Module) -> dict[str, Any]:
    """Return the arguments that FSDP and the planner share."""
    options: dict[str, Any] = {
        "use_orig_params": case.use_orig_params,
        "backward_prefetch": case.prefetch and BackwardPrefetch[case.prefetch],
        "forward_prefetch": case.forward_prefetch,
    }
    if case.param_dtype or case.reduce_dtype or case.keep_low:
        options["mixed_precision"] = MixedPrecision(
            param_dtype=find_dtype(case.param_dtype),
            reduce_dtype=find_dtype(case.reduce_dtype),
            keep_low_precision_grads=case.keep_low,
        )
    if case.ignore:
        names = dict(model.named_modules() if case.ignore_modules else model.named_parameters())
        chosen = [list(names.values())[int(index) % len(names)] for index in case.ignore if names]
        options["ignored_states"] = chosen
    return options


def find_dtype(name: str | None) -> torch.dtype | None:
    return None if name is None else getattr(torch, name)


def make_input(case: Case) -> torch.Tensor:
    return torch.ones(3, 2, requires_grad=case.input_grad)


def predict(case: Case) -> Plan:
    """Plan the case."""
    model = build(case.root)
    return plan(
        model,
        world=case.world,
        rank=case.rank,
        mesh=case.mesh,
        strategy=case.strategy,
        policy=make_policy(case.policy, model),
        example=make_input(case) if case.example else None,
        **make_options(case, model),
        **case.steps,
    )


def wrap(case: Case, model: nn.Module) -> FullyShardedDataParallel:
    """Wrap the case's model in the real FSDP."""
    options = make_options(case, model)
    if case.mesh is not None:
        options["device_mesh"] = init_device_mesh("cpu", case.mesh)
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=make_policy(case.policy, model),
        sharding_strategy=ShardingStrategy[case.strategy],
        device_id=torch.device("cpu"),
        **options,
    )


def measure(
    case: Case, *, runs: bool = True
) -> tuple[Layout, tuple[list[Collective], list[MemoryEvent]] | Exception]:
    """Wrap and run the case; an exception is what torch raises as it runs."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),  # torch's assertions print their stack
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        model = wrapped = build(case.root)
        try:
            wrapped = wrap(case, model)
            layout = read_layout(wrapped)
            try:
                if not runs:
                    return layout, ([], [])
                return layout, run(wrapped, make_input(case), case.steps)
            except (RuntimeError, AssertionError, ValueError, AttributeError) as error:
                return layout, error.with_traceback(None)
        finally:
            take_apart(wrapped)


def take_apart(model: nn.Module) -> None:
    """Take the views of flat parameters out of a model that is no longer needed.

    torch 2.2.2 crashes now and then when the garbage collector finds a flat parameter together with
    views of it ("Deallocating Tensor that still has live PyObject references").
    """
    for module in model.modules():
        for holder in (vars(module), module._parameters):
            for name in [n for n, v in holder.items() if isinstance(v, torch.Tensor)]:
                del holder[name]
        handle = vars(module).get("_handle")
        if handle is not None:
            vars(handle.flat_param).clear()
            handle._unsharded_flat_param_for_skipped_views = None


def run(
    wrapped: FullyShardedDataParallel, batch: torch.Tensor, steps: dict[str, Any]
) -> tuple[list[Collective], list[MemoryEvent]]:
    """Run the steps that the planner's arguments of the same names mean."""
    accumulate = steps.get("accumulate", 1)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    with (
        count_collectives(wrapped) as collectives,
        record_memory(wrapped) as memory,
        torch.set_grad_enabled(steps.get("backward", True)),
    ):
        for step in range(steps.get("steps", 1)):
            if step:
                optimizer.zero_grad()
                wrapped.zero_grad(set_to_none=True)
            for index in range(accumulate):
                last = not steps.get("no_sync") or index == accumulate - 1
                with contextlib.nullcontext() if last else wrapped.no_sync():
                    losses = [add(wrapped(batch)) for _ in range(steps.get("forwards", 1))]
                    wanted = [loss for loss in losses if loss.requires_grad]
                    if wanted:
                        sum(wanted[1:], start=wanted[0]).backward()
    return collectives, memory


def add(output: Any) -> torch.Tensor:
    outputs = output if isinstance(output, tuple) else (output,)
    return sum((o.sum() for o in outputs if o.requires_grad), start=torch.zeros(()))


def check(case: Case) -> str:
    """Hold the plan to the real FSDP; return what happened, for a count of it."""
    try:
        planned: Plan | ValueError = predict(case)
    except ValueError as error:
        planned = error
    unknown = planned.unknown or "" if isinstance(planned, Plan) else ""
    not_run = any(words in unknown for words in ("freed", "lies outside of it", "passes FSDP by"))
    with fake_world(case.world, case.rank):
        try:
            layout, ran = measure(case, runs=not not_run)  # or else the process might crash
        except (ValueError, AssertionError, RuntimeError) as error:
            assert isinstance(planned, ValueError), (  # torch need not refuse
                f"torch refuses, the plan does not: {error}"
            )
            complaint = str(error).strip().splitlines()[0].split(" but got ")[0]
            assert complaint.split(" has both ")[-1] in str(planned)
            return "refused"
    assert isinstance(planned, Plan), f"the plan refuses, torch does not: {planned}"
    assert planned.layout() == layout, f"plan\n{planned.layout()}\ntorch\n{layout}"
    if not_run:
        return "not run"
    if isinstance(ran, Exception):
        if "expected scalar type" in str(ran) or "mixed dtype (CPU)" in str(ran):
            return "kernel"  # a CPU kernel that takes no mixed dtypes; meta tensors have no kernels
        assert planned.unknown is not None, f"torch raises, the plan says nothing of it: {ran!r}"
        return "raised"
    assert planned.unknown is None, planned.unknown
    collectives, memory = ran
    assert planned.collectives == tuple(collectives), _differ(planned.collectives, collectives)
    assert planned.memory == tuple(memory), _differ(planned.memory, memory)
    return "run"


def _differ(planned: Any, measured: Any) -> str:
    """Return both, side by side, from the first difference on."""
    pairs = list(itertools.zip_longest(planned, measured))
    first = next(index for index, (one, other) in enumerate(pairs) if one != other)
    lines = [f"plan  {one}\ntorch {other}" for one, other in pairs[first : first + 4]]
    return f"differs at {first}:\n" + "\n".join(lines)
