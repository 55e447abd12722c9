"""A fact is an integer or a line of text; anything else is refused with a reason."""

import pytest

from fsdp_demo.facts import fact


@pytest.mark.parametrize("value", [1.5, None, True, [3]])
def test_a_fact_is_an_integer_or_a_text(value: object) -> None:
    with pytest.raises(TypeError, match=r"fact 'share' is .*: give an integer or a text"):
        fact("share", value)  # type: ignore[arg-type]  # what is tested


def test_a_fact_is_one_line() -> None:
    with pytest.raises(ValueError, match="fact 'rows' has a line break"):
        fact("rows", "a\nb")


def test_outside_a_notebook_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    fact("gathers", 3)
    assert capsys.readouterr().out == ""
