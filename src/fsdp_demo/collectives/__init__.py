"""Count the collectives that really ran, whichever entry point they came through."""

from fsdp_demo.collectives.count import count_collectives

__all__ = ["count_collectives"]
