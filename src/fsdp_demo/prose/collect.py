"""Find the facts that a page's cells named, in the executed notebook."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fsdp_demo.publish import FACT_MIME


@dataclass(frozen=True, slots=True)
class Facts:
    """What a page's run named.

    Attributes:
        values: Integer or text, by name.
        twice: Names that two cells, or one cell twice, gave.

    """

    values: Mapping[str, int | str]
    twice: frozenset[str]


def is_fact(output: Mapping[str, Any]) -> bool:
    """Say whether a cell's output (in Jupyter's notebook format) is a fact."""
    return FACT_MIME in output.get("data", {})


def collect_facts(notebook_cells: Iterable[Mapping[str, Any]]) -> Facts:
    """Collect the facts of a notebook's cells, in Jupyter's notebook format."""
    values: dict[str, int | str] = {}
    twice = set()
    for cell in notebook_cells:
        for output in cell.get("outputs", ()):
            if is_fact(output):
                named = output["data"][FACT_MIME]
                if named["name"] in values:
                    twice.add(named["name"])
                values[named["name"]] = named["value"]
    return Facts(values, frozenset(twice))
