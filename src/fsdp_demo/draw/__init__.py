"""Figures drawn from measured records: who owns what, what a step does, what takes how long."""

from fsdp_demo.draw.bars import Bar, draw_bars
from fsdp_demo.draw.matrix import draw_line, draw_matrix, find_owners
from fsdp_demo.draw.mesh import draw_mesh
from fsdp_demo.draw.scale import Mark, ScaleRow, draw_scale
from fsdp_demo.draw.sequence import draw_sequence
from fsdp_demo.draw.svg import Figure
from fsdp_demo.draw.timeline import draw_timelines
from fsdp_demo.draw.tree import TreeRow, draw_tree

__all__ = [
    "Bar",
    "Figure",
    "Mark",
    "ScaleRow",
    "TreeRow",
    "draw_bars",
    "draw_line",
    "draw_matrix",
    "draw_mesh",
    "draw_scale",
    "draw_sequence",
    "draw_timelines",
    "draw_tree",
    "find_owners",
]
