"""Hand data from a page's cell to the build, as an output that no reader sees."""

from __future__ import annotations

from typing import Any

FACT_MIME = "application/vnd.fsdp-demo.fact+json"
"""The type of the output that carries a fact from the kernel to the page."""
COMPARISON_MIME = "application/vnd.fsdp-demo.comparison+json"
"""The type of the output that carries what `hold_to_plain` found."""

UNSEEN = {"fsdp_demo": "unseen"}
"""The metadata of an output that the page doesn't show."""


def publish(mime: str, data: dict[str, Any], text: str) -> bool:
    """Publish `data` as the cell's output; `text` is what the cell's pin holds of it.

    Returns:
        False outside a notebook, where nothing is published.

    """
    try:
        from IPython import get_ipython  # noqa: PLC0415  # a plain script needs no IPython
        from IPython.display import publish_display_data  # noqa: PLC0415
    except ImportError:
        return False
    if get_ipython() is None:
        return False
    publish_display_data({mime: data, "text/plain": text}, metadata=UNSEEN)  # type: ignore[no-untyped-call]
    return True
