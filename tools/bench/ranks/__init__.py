"""Programs that the bench starts in a Python that has torch."""
