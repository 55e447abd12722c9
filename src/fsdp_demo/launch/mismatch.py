"""In the parent: whether all ranks issued the same collectives, and if not, where they part.

Compared are the kind, the shapes and dtypes, and the root, one group at a time. Not seen:
collectives of the same kind and shape in another order (two layers of one size swapped), another
reduce operation (SUM and MAX: torch hides it from a Python kernel), and whatever comes after a
rank's first 100 000 collectives.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from fsdp_demo.launch.errors import RankError
from fsdp_demo.launch.frames import Frame, show_frame
from fsdp_demo.launch.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class Issued:
    """One collective that a rank issued."""

    group: str
    ranks: tuple[int, ...]
    is_compared: bool
    name: str
    what: str  # its tensors and root, as in " of (4,) float32"
    frame: Frame  # the reader's own line

    def __str__(self) -> str:
        """Return it as in "all_reduce of (4,) float32"."""
        return self.name + self.what


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first place where the ranks of a group part."""

    position: int  # from 1, among the group's collectives
    ranks: tuple[int, ...]  # of the group
    issued: dict[int, Issued | None]  # by rank; None where a rank issued no more

    @property
    def odd_ranks(self) -> list[int]:
        """The ranks that did something else than most; on a tie, than the lowest rank."""
        texts = {rank: str(issued) for rank, issued in self.issued.items()}
        counts = Counter(texts.values())
        most = max(counts.values())
        usual = next(text for text in texts.values() if counts[text] == most)
        return [rank for rank, text in texts.items() if text != usual]


def read_log(file: IO[bytes]) -> list[Issued]:
    """Return what a rank issued, in order; a last line that the rank did not finish is left out."""
    fd = file.fileno()
    text = os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")
    issued = []
    for line in text.split("\n")[:-1]:
        group, ranks, compared, name, what, lineno, function, filename = line.split("\t", 7)
        members = tuple(map(int, ranks.split(",")))
        frame = Frame(filename, int(lineno), function)
        issued.append(Issued(group, members, compared == "=", name, what, frame))
    return issued


def find_mismatch(logs: list[list[Issued]], ended: Collection[int] = ()) -> Mismatch | None:
    """Return where the ranks part, or None.

    Args:
        logs: what each rank issued, in rank order.
        ended: the ranks that have returned, so that a shorter record of theirs is a skipped
            collective, and not one that is still to come.
    """
    members: dict[str, tuple[int, ...]] = {}
    by_group: dict[str, dict[int, list[Issued]]] = defaultdict(dict)
    for rank, log in enumerate(logs):
        for issued in log:
            if issued.is_compared:
                members[issued.group] = issued.ranks
                by_group[issued.group].setdefault(rank, []).append(issued)
    for group, columns in by_group.items():
        for at in range(max(map(len, columns.values()))):
            row = {
                rank: column[at] if at < len(column) else None
                for rank in members[group]
                for column in [columns.get(rank, [])]
                if at < len(column) or rank in ended
            }
            if len({str(issued) for issued in row.values()}) > 1:
                return Mismatch(at + 1, members[group], row)
    return None


def judge_mismatch(mismatch: Mismatch) -> RankError:
    """Return the error for ranks that issued different collectives."""
    odd = mismatch.odd_ranks
    usual = [rank for rank in mismatch.issued if rank not in odd]
    ours, theirs = mismatch.issued[odd[0]], mismatch.issued[usual[0]]
    alike = [rank for rank in odd if str(mismatch.issued[rank]) == str(ours)]
    summary = (
        f"{name_ranks(alike)} issued {ours or 'no collective'}"
        f" where {name_ranks(usual)} issued {theirs or 'none'}"
    )
    group = f"the group of {name_ranks(mismatch.ranks)}"
    rule = "whose ranks must all issue the same ones in the same order."
    parts = [f"It is collective {mismatch.position} of {group}, {rule}"]
    for rank in (usual[0], odd[0]):
        issued = mismatch.issued[rank]
        if issued is not None:
            parts.append(f"Rank {rank}, {issued.name}:\n{show_frame(issued.frame)}")
    frames = () if ours is None else (ours.frame,)
    return RankError(
        summary, kind="mismatch", rank=odd[0], frames=frames, details="\n\n".join(parts)
    )
