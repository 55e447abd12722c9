"""Which ranks a unit is sharded over, and which hold copies of the same shard."""

# ruff: noqa: SLF001 - one of torch's strategies has a private name

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.distributed.fsdp import ShardingStrategy

from fsdp_demo.planner.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)  # torch's name


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks that a unit's collectives go over, in the groups' order.

    Attributes:
        ranks: the sharding group.
        replica_ranks: the ranks with the same shard, for a hybrid strategy; else empty.
    """

    ranks: tuple[int, ...]
    replica_ranks: tuple[int, ...] = ()


class World:
    """The ranks of a run, and the one that the plan is made for.

    Args:
        size: the world size.
        rank: the rank whose collectives and memory are planned.
        mesh: for hybrid strategies, `(replicas, shards)`, or the rows of ranks themselves: each row
            is a sharding group, as in `DeviceMesh("cpu", rows)`.

    Raises:
        PlanError: the rank is not in the world, or the mesh is not made of the world's ranks.
    """

    def __init__(
        self, size: int, rank: int = 0, mesh: Sequence[int] | Sequence[Sequence[int]] | None = None
    ) -> None:
        if size < 1:
            raise PlanError(f"a world of {size} ranks: give one rank or more")
        if not 0 <= rank < size:
            raise PlanError(f"rank {rank} is not in a world of {size}: give one of 0 to {size - 1}")
        self.size = size
        self.rank = rank
        self.everyone = tuple(range(size))
        self.rows = None if mesh is None else _read_rows(mesh, size)

    def find_group(self, strategy: ShardingStrategy) -> Group:
        """Return the groups of a unit with this strategy.

        Read from `_init_process_group_state` and `_init_process_group_state_for_hybrid_shard` in
        torch.distributed.fsdp._init_utils: a hybrid strategy shards along the mesh's axis 1 and
        replicates along axis 0; any other strategy takes axis 0 of a mesh, even of one with two
        axes.

        Raises:
            PlanError: a hybrid strategy without a mesh.
        """
        if self.rows is None:
            if strategy in HYBRID:
                raise PlanError(
                    f"{strategy.name} needs mesh=(replicas, shards): without a mesh torch shards"
                    " over the devices of a node, which only a node can count"
                )
            return Group(self.everyone)
        row = next(row for row in self.rows if self.rank in row)
        column = tuple(ranks[row.index(self.rank)] for ranks in self.rows)
        return Group(row, column) if strategy in HYBRID else Group(column)


def _read_rows(
    mesh: Sequence[int] | Sequence[Sequence[int]], size: int
) -> tuple[tuple[int, ...], ...]:
    """Return the mesh's rows of global ranks."""
    if len(mesh) == 2 and all(isinstance(length, int) for length in mesh):  # noqa: PLR2004  # two axes
        replicas, shards = (length for length in mesh if isinstance(length, int))
        if replicas < 1 or shards < 1 or replicas * shards != size:
            raise PlanError(
                f"a mesh of {replicas} x {shards} has {replicas * shards} ranks and the world"
                f" {size}: give a mesh whose sizes multiply to the world"
            )
        return tuple(
            tuple(range(start, start + shards)) for start in range(0, replicas * shards, shards)
        )
    rows = tuple(tuple(row) for row in mesh if not isinstance(row, int))
    if len(rows) != len(mesh) or not rows or len({len(row) for row in rows}) != 1:
        raise PlanError(f"mesh {mesh!r}: give (replicas, shards), or equally long rows of ranks")
    if sorted(rank for row in rows for rank in row) != list(range(size)):
        raise PlanError(f"mesh {mesh!r} does not name each rank of the world {size} once")
    return rows
