"""Name a figure of a run, so that a sentence of the page can state it.

    fact("gathers-forward", 3)

A sentence then says ``{fact}`gathers-forward``` for the figure, or ``{fact-word}`gathers-forward```
for the word. The fact is part of the cell's output, so it is pinned with it: a sentence can't go on
saying three when the run says four.
"""

from fsdp_demo.publish import FACT_MIME, publish


def fact(name: str, value: float | str) -> None:
    """Name `value` for the page's sentences; nothing is shown.

    A float is given as the text that the sentence is to show, so that the page decides on its
    digits and not its reader. Outside a notebook this does nothing.

    Args:
        name: Unique in the page.
        value: An integer, or a text without a line break.

    Raises:
        TypeError: the value is neither.
        ValueError: the text has a line break.

    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        msg = f"fact {name!r} is {value!r}: give an integer or a text, a float as f'{{x:.2f}}'"
        raise TypeError(msg)
    if "\n" in str(value):
        msg = f"fact {name!r} has a line break; a sentence can't hold it"
        raise ValueError(msg)
    publish(FACT_MIME, {"name": name, "value": value}, f"fact {name}: {value}")
