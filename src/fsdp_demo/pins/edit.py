"""Change a pin file's text: only what changes, with every comment and the order kept.

The text is parsed to tomlkit's elements (keys, comments, blank lines), elements are spliced, and
what comes out is read again and compared with what was meant, before anybody writes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import Table

from fsdp_demo.pins.pinfile import parse_pin_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tomlkit.items import Item, Key

    from fsdp_demo.pins.cells import Setting

    Body = list[tuple[Key | None, Item]]  # tomlkit's own: elements in the file's order

_HEADER = """\
# What docs/{docname}.md printed when it was last reviewed.
# `nox -s pins` shows what differs, `nox -s pins -- --accept` takes it over.
[taken-on]
torch = "{torch}"
build = "{build}"

[pins]
"""
# What no literal string can hold; a final quote would run into the closing three.
_NOT_LITERAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|'''|'\Z")
_ESCAPED = re.compile(r'[\x00-\x08\x0b-\x1f\x7f"\\]')

Value = str | dict[str, str]
"""A pin, or one pin for each build."""


def new_pin_file(docname: str, setting: Setting) -> str:
    """Return the text of a pin file that has no pin yet."""
    return _HEADER.format(docname=docname, torch=setting.torch, build=setting.build)


def edit_pin_file(
    text: str,
    order: Sequence[str],
    values: Mapping[str, Value],
    removed: Collection[str] = (),
    taken_on: Setting | None = None,
) -> str:
    """Set pins, remove pins, and note a new setting in a pin file's text.

    Args:
        text: The file's text.
        order: The labels in page order: where a new one goes.
        values: The new values by label.
        removed: Labels to remove. The comments around them stay.
        taken_on: What the pins are taken on from now on; None leaves that as it is.

    Raises:
        BrokenPinFileError: The text is no pin file.
    """
    before = parse_pin_file(text)
    meant: dict[str, object] = {k: v for k, v in before.pins.items() if k not in removed}
    meant |= values
    document = tomlkit.parse(text if text.endswith("\n") else text + "\n")
    if taken_on is not None:
        for key, value in (("torch", taken_on.torch), ("build", taken_on.build)):
            document["taken-on"][key] = value
    body = document["pins"].value.body
    for label in removed:
        _remove(body, label)
    for label in sorted(values, key=list(order).index):
        if label in before.pins:
            _change(body, label, values[label])
        else:
            _insert(body, order, label, values[label])
    edited = tomlkit.dumps(document)
    after = parse_pin_file(edited)
    if after.pins != meant or (taken_on is not None and after.taken_on != taken_on):
        raise AssertionError(f"the edit of a pin file went wrong:\n{edited}")
    return edited


def render_text(text: str) -> str:
    """Write a text as a TOML string that reads like the output, exactly.

    A literal string where it can be.  A carriage return must be escaped: TOML's readers turn
    CRLF into LF.
    """
    if not text:
        return "''"
    if _NOT_LITERAL.search(text) is None:
        return f"'''\n{text}'''"
    escaped = _ESCAPED.sub(_escape, text)
    return f'"""\n{escaped}"""'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return f"\\{char}" if char in '"\\' else f"\\u{ord(char):04x}"


def _render(label: str, value: Value) -> str:
    if isinstance(value, str):
        return f"{label} = {render_text(value)}\n"
    return "".join(f"{label}.{build} = {render_text(one)}\n" for build, one in value.items())


def _elements(text: str) -> Body:
    return list(tomlkit.parse(text).body)


def _find(body: Body, label: str) -> list[int]:
    """Find the elements of a label: one, or several where comments stand between its builds."""
    return [i for i, (key, _) in enumerate(body) if key is not None and key.key == label]


def _leaves(body: Body, label: str) -> list[tuple[Body, int]]:
    """Find a label's strings, each as the body that holds it and its place there."""
    return [leaf for index in _find(body, label) for leaf in _leaves_at(body, index)]


def _leaves_at(body: Body, index: int) -> list[tuple[Body, int]]:
    item = body[index][1]
    if isinstance(item, Table):  # dotted keys, such as setting.cpu
        return [(item.value.body, i) for i in range(len(item.value.body))]
    return [(body, index)]


def _remove(body: Body, label: str) -> None:
    """Remove a pin; a comment behind it becomes a line of its own."""
    for index in reversed(_find(body, label)):
        comments = [holder[i][1].trivia.comment for holder, i in _leaves_at(body, index)]
        body[index : index + 1] = _elements("".join(f"{one}\n" for one in comments if one))


def _change(body: Body, label: str, value: Value) -> None:
    """Give a pin another value, in its place and with the comments behind it."""
    leaves = _leaves(body, label)
    if isinstance(value, str):
        _put(*leaves[0], value)
    elif leaves[0][0] is body:  # it had one value, from now on it has one for each build
        (index,) = _find(body, label)
        old = body[index][1]
        body[index : index + 1] = _elements(_render(label, value))
        holder, i = _leaves(body, label)[0]
        _keep_comment(holder[i][1], old)
    else:
        new = dict(value)
        for holder, i in leaves:
            key = holder[i][0]
            if key is not None:
                _put(holder, i, new.pop(key.key))
        last = _find(body, label)[-1] + 1
        body[last:last] = _elements(_render(label, new))


def _put(body: Body, index: int, text: str) -> None:
    key, old = body[index]
    new = tomlkit.value(render_text(text))
    _keep_comment(new, old)
    body[index] = (key, new)


def _keep_comment(new: Item, old: Item) -> None:
    new.trivia.comment_ws, new.trivia.comment = old.trivia.comment_ws, old.trivia.comment
    new.trivia.indent, new.trivia.trail = old.trivia.indent, old.trivia.trail


def _insert(body: Body, order: Sequence[str], label: str, value: Value) -> None:
    """Insert a new pin behind the nearest label before it on the page that the file has."""
    before = (found for one in reversed(order[: order.index(label)]) if (found := _find(body, one)))
    previous = next(before, None)
    if previous is not None:
        body[previous[-1] + 1 : previous[-1] + 1] = _elements("\n" + _render(label, value))
    else:
        body[0:0] = _elements(_render(label, value) + ("\n" if body else ""))
