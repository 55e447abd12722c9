"""Sentences that state what a run printed: they take it from the run, or the build fails.

`collect` finds the facts that a page's cells named, `roles` lets sentences use them, `numbers`
finds figures and number words in the prose, `allowed` knows the reviewed exceptions, and
`extension` is the only module that knows Sphinx.
"""

from fsdp_demo.prose.extension import setup

__all__ = ["setup"]
