"""What one rank holds of a flat parameter."""

from __future__ import annotations

from dataclasses import dataclass

from fsdp_demo.records.words import name_range, name_unit


@dataclass(frozen=True, slots=True)
class PartRow:
    """A row of which a slice holds some numbers but not all: `[row, start:stop]`."""

    row: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ParameterSlice:
    """The numbers `start` to `stop` of one original parameter, in the flat parameter's order.

    Attributes:
        name: the parameter's name.
        shape: the parameter's shape.
        start: the first number held, counted from the parameter's first.
        stop: one past the last number held.
        offset: where the first of them lies in the rank's shard.
        strides: as in `Parameter`: None for the usual order, row by row.
    """

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    offset: int
    strides: tuple[int, ...] | None = None

    @property
    def row_numel(self) -> int:
        """Numbers in a row, a row being one index of the first dimension (1 for a vector).

        `ValueError` where the parameter does not lie row by row: its rows are no slices then.
        """
        if self.strides is not None:
            raise ValueError(f"{self.name} lies with strides {self.strides}, not row by row")
        numel = 1
        for size in self.shape[1:]:
            numel *= size
        return numel

    @property
    def whole_rows(self) -> range:
        """The rows held whole; empty when there are none."""
        first = -(-self.start // self.row_numel)
        return range(first, max(first, self.stop // self.row_numel))

    @property
    def part_rows(self) -> tuple[PartRow, ...]:
        """The rows held in part, none, one or two of them, in order."""
        width = self.row_numel
        parts = []
        for row in dict.fromkeys((self.start // width, (self.stop - 1) // width)):
            start = max(self.start - row * width, 0)
            stop = min(self.stop - row * width, width)
            if stop - start < width:
                parts.append(PartRow(row, start, stop))
        return tuple(parts)

    def __str__(self) -> str:
        """Return the slice in words: `0.weight rows 0-1`, `0.weight row 1[0-1], rows 2-3`."""
        if not self.shape:
            return self.name
        if self.strides is not None:
            return f"{self.name} numbers {name_range(self.start, self.stop)} in memory order"
        said = [(part.row, f"row {part.row}[{name_range(part.start, part.stop)}]")
                for part in self.part_rows]  # fmt: skip
        if whole := self.whole_rows:
            plural = "s" if len(whole) > 1 else ""
            said.append((whole.start, f"row{plural} {name_range(whole.start, whole.stop)}"))
        return f"{self.name} " + ", ".join(text for _, text in sorted(said))


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's shard of one unit's flat parameter.

    Attributes:
        unit: the unit's name.
        rank: the global rank that holds it.
        start: where the shard begins in the padded flat parameter.
        numel: numbers in the shard, padding included; the same on each rank.
        slices: which numbers of which original parameters it holds, in order.  A parameter that is
            not here lies wholly on other ranks.
        padding: ranges of the shard, `(start, stop)`, that are padding and no parameter.
    """

    unit: str
    rank: int
    start: int
    numel: int
    slices: tuple[ParameterSlice, ...]
    padding: tuple[tuple[int, int], ...]

    @property
    def padding_numel(self) -> int:
        """Numbers of the shard that are padding."""
        return sum(stop - start for start, stop in self.padding)

    def slice_of(self, name: str) -> ParameterSlice | None:
        """Return what the shard holds of the parameter `name`; None when that is nothing."""
        return next((held for held in self.slices if held.name == name), None)

    def __str__(self) -> str:
        """Return the shard as one line: its rank, what it holds, its padding."""
        held = [str(part) for part in self.slices]
        if self.padding_numel:
            held.append(f"{self.padding_numel} padding")
        return f"rank {self.rank}  {name_unit(self.unit)}: " + "; ".join(held)
