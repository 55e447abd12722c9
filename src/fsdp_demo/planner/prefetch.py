"""Which unit FSDP gathers ahead of time.

The rules of torch 2.2.2's `_ExecOrderData` (torch.distributed.fsdp._exec_order_utils) and
`_get_handle_to_prefetch` (_runtime_utils).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributed.fsdp import BackwardPrefetch

from fsdp_demo.planner.errors import RefusedRunError
from fsdp_demo.records.words import name_unit

if TYPE_CHECKING:
    from fsdp_demo.planner.handle import Handle


class Order:
    """The order in which flat parameters were used: of forwards since the last backward ended.

    The order before forwards is that of the first iteration; the order after forwards is recorded
    anew in each.
    """

    def __init__(self) -> None:
        self.first_iteration = True
        self.pre_forward: list[Handle] = []
        self.post_forward: list[Handle] = []

    def record_pre_forward(self, handle: Handle) -> None:
        """Record the first use of a flat parameter in the first iteration."""
        if self.first_iteration and handle.pre_forward_index is None:
            handle.pre_forward_index = len(self.pre_forward)
            self.pre_forward.append(handle)

    def record_post_forward(self, handle: Handle) -> None:
        """Record a use; the index is that of the first, unless the first was at 0."""
        if not handle.post_forward_index:
            handle.post_forward_index = len(self.post_forward)
        self.post_forward.append(handle)

    def next_iteration(self) -> None:
        """Begin anew: a backward has ended."""
        self.first_iteration = False
        self.post_forward.clear()

    def find_prefetch(
        self, handle: Handle, backward: BackwardPrefetch | None, *, forward_prefetch: bool
    ) -> Handle | None:
        """Return what is to be gathered beside `handle`, at its present state.

        Raises:
            RefusedRunError: as torch does, for a frozen unit whose inputs have their
                gradients though no backward entered it.
        """
        if handle.state == "idle":
            raise RefusedRunError(
                "Prefetching is only supported in BACKWARD_PRE, BACKWARD_POST and FORWARD but"
                f" unit {name_unit(handle.name)}, which is frozen, is in IDLE"
            )
        if (handle.state, backward) in (
            ("backward-pre", BackwardPrefetch.BACKWARD_PRE),
            ("backward-post", BackwardPrefetch.BACKWARD_POST),
        ):
            index = handle.post_forward_index
            if not index:
                return None
            target = self.post_forward[index - 1]
            return target if target.needs_pre_backward and not target.prefetched else None
        if handle.state == "forward" and forward_prefetch:
            index = handle.pre_forward_index
            if index is None or index + 1 >= len(self.pre_forward):
                return None
            target = self.pre_forward[index + 1]
            return target if target.needs_pre_forward and not target.prefetched else None
        return None
