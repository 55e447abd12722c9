"""What the planner refuses."""

from __future__ import annotations


class PlanError(ValueError):
    """There is no such plan: torch refuses this too, or the arguments contradict each other.

    Its text is torch's own complaint where torch has one, with the unit's name and what to do.
    """


class RefusedRunError(RuntimeError):
    """In the run that is planned, torch's runtime raises; the text is torch's own."""
