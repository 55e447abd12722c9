"""Pin files are changed where they must be, and nowhere else."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdp_demo.pins.cells import Setting
from fsdp_demo.pins.edit import edit_pin_file, new_pin_file, render_text
from fsdp_demo.pins.pinfile import BrokenPinFileError, parse_pin_file

HERE = Setting("2.2.2", "cu121")
COMMENTED = """\
# head

[taken-on] # where
torch = "2.2.2" # which
build = "cu121"

[pins]
# about one
one = '''
1
''' # behind one

# about two
two.cpu = '''
2
'''
# between
two.cu121 = '''
2
''' # behind two

# about three
three = "3\\n" # behind three
# foot
"""
ORDER = ["zero", "one", "one-and-a-half", "two", "three", "four"]


def test_a_changed_pin_keeps_its_place_and_comments() -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {"one": "1.5\n"})
    assert edited == COMMENTED.replace("'''\n1\n'''", "'''\n1.5\n'''")


def test_one_build_of_a_pin_is_changed() -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {"two": {"cpu": "2\n", "cu121": "2.5\n"}})
    assert edited == COMMENTED.replace("'''\n2\n''' #", "'''\n2.5\n''' #")


def test_a_build_is_added_below_the_others() -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {"two": {"cpu": "2\n", "cu121": "2\n", "cu118": ""}})
    assert edited == COMMENTED.replace("# behind two\n", "# behind two\ntwo.cu118 = ''\n")


def test_one_value_becomes_one_for_each_build() -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {"one": {"cu121": "1\n", "cpu": "0\n"}})
    assert edited == COMMENTED.replace(
        "one = '''\n1\n''' # behind one\n",
        "one.cu121 = '''\n1\n''' # behind one\none.cpu = '''\n0\n'''\n",
    )


def test_new_pins_go_in_page_order() -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {"four": "4\n", "zero": "", "one-and-a-half": "x"})
    assert list(parse_pin_file(edited).pins) == ORDER
    assert edited == (
        COMMENTED.replace("[pins]\n", "[pins]\nzero = ''\n\n")
        .replace("# behind one\n", "# behind one\n\none-and-a-half = '''\nx'''\n")
        .replace("# behind three\n", "# behind three\n\nfour = '''\n4\n'''\n")
    )


@pytest.mark.parametrize("label", ["one", "two", "three"])
def test_a_removed_pin_leaves_every_comment(label: str) -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {}, [label])
    comments = [line.split("#")[1] for line in COMMENTED.splitlines() if "#" in line]
    assert [line.split("#")[1] for line in edited.splitlines() if "#" in line] == comments
    assert label not in parse_pin_file(edited).pins


def test_the_setting_is_changed_in_place() -> None:
    edited = edit_pin_file(COMMENTED, ORDER, {}, [], Setting("2.3.0", "cpu"))
    assert edited == COMMENTED.replace('"2.2.2"', '"2.3.0"').replace('"cu121"\n', '"cpu"\n')


def test_a_file_without_a_final_newline_can_be_added_to() -> None:
    text = new_pin_file("page", HERE) + "one = '1'"
    edited = edit_pin_file(text, ORDER, {"two": "2\n"})
    assert edited == text + "\n\ntwo = '''\n2\n'''\n"


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", "''"),
        ("a\n", "'''\na\n'''"),
        ("no newline", "'''\nno newline'''"),
        ("\nfirst empty \n", "'''\n\nfirst empty \n'''"),
        ("back\\slash \"quoted\" 'too'\n", "'''\nback\\slash \"quoted\" 'too'\n'''"),
        ("ends in '", '"""\nends in \'"""'),
        ("three '''\n", '"""\nthree \'\'\'\n"""'),
        ("both \"\"\" and '''\n", '"""\nboth \\"\\"\\" and \'\'\'\n"""'),
        ("windows\r\n", '"""\nwindows\\u000d\n"""'),
        ("color \x1b[0m\n", '"""\ncolor \\u001b[0m\n"""'),
    ],
)
def test_a_text_reads_like_the_output(text: str, rendered: str) -> None:
    assert render_text(text) == rendered


OUTPUTS = st.text(st.characters(codec="utf-8")) | st.text(alphabet="a'\"\\\n\r\t \x00\x1b\x7f…")


@given(OUTPUTS)
def test_a_text_comes_back_exactly(text: str) -> None:
    """Through TOML's own reader: CRLF, quotes, control characters, spaces, no final newline."""
    assert tomllib.loads(f"key = {render_text(text)}\n") == {"key": text}


LABELS = st.sampled_from(ORDER)
VALUES = OUTPUTS | st.dictionaries(st.sampled_from(["cpu", "cu118"]), OUTPUTS, min_size=1)


@given(st.dictionaries(LABELS, VALUES), st.dictionaries(LABELS, OUTPUTS), st.sets(LABELS))
def test_edits_do_what_was_meant(
    first: dict[str, str | dict[str, str]], second: dict[str, str], removed: set[str]
) -> None:
    """New pins, changed ones and removed ones, in page order whatever order they come in."""
    text = edit_pin_file(new_pin_file("page", HERE), ORDER, first)
    assert parse_pin_file(text).pins == first
    later: dict[str, str | dict[str, str]] = {}
    for label, value in second.items():
        old = first.get(label)
        later[label] = {**old, "cu121": value} if isinstance(old, dict) else value
    gone = [label for label in removed if label in first and label not in later]
    text = edit_pin_file(text, ORDER, later, gone)
    meant = {label: value for label, value in {**first, **later}.items() if label not in gone}
    assert parse_pin_file(text).pins == meant
    assert list(parse_pin_file(text).pins) == [label for label in ORDER if label in meant]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[taken-on]\ntorch = \n", 2, "Invalid value"),
        ("[pins]\n", 1, "[taken-on] must name torch and build."),
        ("\n[taken-on]\ntorch = '2'\n[pins]\n", 2, "[taken-on] must name torch and build."),
        ("[taken-on]\ntorch = '2'\nbuild = 'cpu'\n", 1, "The table [pins] is not there."),
        (new_pin_file("p", HERE) + "one = 1\n", 8, "The pin `one` must be a string"),
        (new_pin_file("p", HERE) + "one.cpu = 1\n", 8, "The pin `one` must be a string"),
        (new_pin_file("p", HERE) + "a = '''\none = 2\n'''\none = 1\n", 11, "The pin `one` must"),
        (new_pin_file("p", HERE) + "[other]\n", 8, "`other` has no meaning here."),
        (new_pin_file("p", HERE) + "a = ''\na = ''\n", 9, "Cannot overwrite a value"),
    ],
)
def test_a_broken_file_is_named_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(BrokenPinFileError) as raised:
        parse_pin_file(text)
    assert str(raised.value).startswith(message)
    assert raised.value.line == line
