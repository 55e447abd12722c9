"""Quotations of torch that the build looks up in the torch the page ran on.

    ```{torch-quote} torch.distributed.fsdp.api.ShardingStrategy
    does not reshard them after the forward
    ```

shows the words with the object's name, the version, and a link to the line at that version's tag.
If the object is not in the installed torch, or the words are not in the object, the build fails at
the page's line. `cited` has the directive for what a page cites and doesn't measure.
"""

from fsdp_demo.citations.extension import setup

__all__ = ["setup"]
