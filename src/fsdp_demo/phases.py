"""Whether a forward or a backward runs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from fsdp_demo.records import Phase


class PhaseWatch:
    """Knows the phase of the moment, for one model."""

    def __init__(self) -> None:
        self.forwards = 0

    @property
    def phase(self) -> Phase:
        """The phase now.

        `torch._C._current_graph_task_id` is -1 unless autograd's engine runs in this thread, which
        for CPU tensors is the thread that called `backward()`.
        """
        if torch._C._current_graph_task_id() != -1:  # noqa: SLF001  # there is no public one
            return "backward"
        return "forward" if self.forwards else "outside"

    @contextlib.contextmanager
    def watch(self, model: nn.Module) -> Iterator[None]:
        """Follow the forwards of `model`, by hooks that are gone afterwards."""

        def enter(*_: Any) -> None:  # noqa: ANN401  # a hook is handed the module and its inputs
            self.forwards += 1

        def leave(*_: Any) -> None:  # noqa: ANN401
            self.forwards -= 1

        hooks = (
            model.register_forward_pre_hook(enter, prepend=True),
            # A forward that raises has ended too.
            model.register_forward_hook(leave, always_call=True),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
