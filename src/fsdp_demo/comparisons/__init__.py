"""Each lesson's programs are compared with the plain model, or the build fails.

A lesson's own cell calls `fsdp_demo.equality.hold_to_plain` with the lesson's own functions.
`calls` finds each ``FSDP(…)`` in a page's code, `check` finds those that no comparison has run,
`table` lists what all comparisons found, and `extension` connects them to Sphinx.
"""

from fsdp_demo.comparisons.extension import setup

__all__ = ["setup"]
