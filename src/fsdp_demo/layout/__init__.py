"""Read who owns what from an FSDP-wrapped model."""

from fsdp_demo.layout.read import read_layout

__all__ = ["read_layout"]
