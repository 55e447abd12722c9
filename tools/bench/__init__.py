"""What `nox -s bench` measures, and how.

`__main__` runs the measurements one after the other, prints their figures and writes them as JSON.
Each module named for what it measures yields figures; `figures` holds what a figure is, `processes`
starts what is timed. Nothing here imports torch: what does is in `ranks`, and runs in a Python that
has it.
"""
