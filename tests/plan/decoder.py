"""The decoder of the lesson on planning, from the page itself, so that the two can't differ."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

PAGE = Path(__file__).parents[2] / "docs/lessons/7-planner.md"


def read_decoder() -> dict[str, Any]:
    """Run the page's cells that define it; return their names, such as `Decoder`."""
    cells = re.findall(
        r"^```{code-cell} python\n(.+?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {"torch": torch, "nn": nn, "ModuleWrapPolicy": ModuleWrapPolicy}
    for cell in cells:
        if re.search(r"^class (BigBlock|Decoder)\b", cell, re.MULTILINE):
            exec(re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE), names)  # noqa: S102  # our own page
    return names
