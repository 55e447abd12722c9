"""Compare what each executed cell printed with its pin, and accept what rightly differs.

A *pin* is the reviewed output of a cell, kept in ``docs/_pins/<page>.toml``.  The work flows one
way, and each step is one module::

    render -> cells -> compare -> findings -> report, or accept

Only :mod:`~fsdp_demo.pins.render`, :mod:`~fsdp_demo.pins.blocks`, :mod:`~fsdp_demo.pins.pictures`,
:mod:`~fsdp_demo.pins.places` and :mod:`~fsdp_demo.pins.extension` know Sphinx or MyST-NB, and
nothing here imports torch: the cells run in a kernel whose environment is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Set up the Sphinx extension ``fsdp_demo.pins``.

    The import stands here so that ``python -m fsdp_demo.pins`` works without Sphinx.
    """
    from fsdp_demo.pins.extension import connect  # noqa: PLC0415 - see the docstring

    return connect(app)
