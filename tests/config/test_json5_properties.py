"""Properties of the JSON5 reader: places are right, and any other text gives a typed error."""

from __future__ import annotations

import random
from pathlib import Path

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigInvalidError
from config.source.json5 import parse_json5

FILE = Path("test.json5")

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    names,
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


class Writer:
    """Writes a value as JSON5 in a random style and remembers where every member starts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.text = ""
        self.places: dict[tuple[str | int, ...], int] = {}

    def blank(self) -> None:
        choices = ["", " ", "\n  ", "\r\n", "// } ,\n", "/* [ \n */", "\t", "\ufeff"]
        self.text += self.random.choice(choices)

    def write(self, value: object, at: tuple[str | int, ...] = ()) -> None:
        self.blank()
        if isinstance(value, dict):
            self._object(value, at)
        elif isinstance(value, list):
            self._list(value, at)
        else:
            self.text += self._string(value) if isinstance(value, str) else pyjson5.dumps(value)
        self.blank()

    def _object(self, members: dict[str, object], at: tuple[str | int, ...]) -> None:
        self.text += "{"
        for name, value in members.items():
            self.blank()
            self.places[(*at, name)] = len(self.text)
            plain = name.isascii() and name.isidentifier() and self.random.random() < 0.5
            self.text += name if plain else self._string(name)
            self.blank()
            self.text += ":"
            self.write(value, (*at, name))
            self.text += ","
        self.text = self._close(self.text, "}")

    def _list(self, items: list[object], at: tuple[str | int, ...]) -> None:
        self.text += "["
        for index, value in enumerate(items):
            self.blank()
            self.places[(*at, index)] = len(self.text)
            before = self.text
            self.text = ""
            inner = Writer(self.random.randrange(2**32))
            inner.blank = lambda: None  # type: ignore[method-assign]
            inner.write(value, (*at, index))
            for path, offset in inner.places.items():
                self.places[path] = len(before) + offset
            self.text = before + inner.text + ","
        self.text = self._close(self.text, "]")

    def _close(self, text: str, bracket: str) -> str:
        trailing = self.random.random() < 0.5
        return (text if trailing or not text.endswith(",") else text[:-1]) + bracket

    def _string(self, text: str) -> str:
        quotation = self.random.choice("\"'")
        return quotation + "".join(self._character(c, quotation) for c in text) + quotation

    def _character(self, character: str, quotation: str) -> str:
        special = character in "\\\n\r\u2028\u2029" or character == quotation
        if special or self.random.random() < 0.1:
            units = character.encode("utf-16-be").hex()
            return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        return character


def offsets(node, at=()):
    """Yields every path below a located tree with its offset."""
    if isinstance(node.value, dict):
        pairs = node.value.items()
    else:
        pairs = enumerate(node.value) if isinstance(node.value, list) else ()
    for name, member in pairs:
        yield (*at, name), member.offset
        yield from offsets(member, (*at, name))


@given(value=values, seed=st.integers(0, 2**32))
def test_every_place_is_where_the_writer_put_it(value, seed):
    writer = Writer(seed)
    writer.write(value)
    # A byte order mark at the very start is not a character of the text.
    data, skipped = writer.text.encode(), writer.text.startswith("\ufeff")
    assert dict(offsets(parse_json5(data, FILE))) == {
        path: offset - skipped for path, offset in writer.places.items()
    }


@given(value=values, seed=st.integers(0, 2**32))
def test_the_values_are_those_of_the_parser(value, seed):
    writer = Writer(seed)
    writer.write(value)

    def plain(node):
        if isinstance(node.value, dict):
            return {name: plain(member) for name, member in node.value.items()}
        return [plain(item) for item in node.value] if isinstance(node.value, list) else node.value

    assert plain(parse_json5(writer.text.encode(), FILE)) == pyjson5.loads(writer.text)


def error_of(data: bytes) -> ConfigInvalidError | None:
    """Returns the typed error for these bytes, or None if they contain a value."""
    try:
        parse_json5(data, FILE)
    except ConfigInvalidError as error:
        return error
    return None


@given(data=st.binary(max_size=60))
def test_random_bytes_give_a_value_or_a_typed_error(data):
    error = error_of(data)
    assert error is None or error.remedy


@given(
    text=st.text(
        "{}[]:,\"'\\/*\n\r \tab1.-+eExuINntf\ufeff\u2028\0\u00e9\U0001f600#@", max_size=30
    ),
    prefix=st.sampled_from(["", "{a: ", "{a: [1, ", '{"b', "{a: 1} ", "{ // c\n", "{a: 'x"]),
)
def test_mangled_json5_gives_a_value_or_an_error_inside_the_text(text, prefix):
    text = prefix + text
    error = error_of(text.encode())
    if error is not None:
        (problem,) = error.problems
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


@given(value=st.dictionaries(names, values, min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_a_stray_character_is_reported_where_it_stands(value, seed):
    writer = Writer(seed)
    writer.blank = lambda: None  # type: ignore[method-assign]
    writer.write(value)
    offset = random.Random(seed).choice(sorted(writer.places.values()))
    broken = writer.text[:offset] + "@" + writer.text[offset:]
    with pytest.raises(ConfigInvalidError) as caught:
        parse_json5(broken.encode(), FILE)
    (problem,) = caught.value.problems
    before = broken[:offset]
    line = before.count("\n") + before.count("\r") - before.count("\r\n") + 1
    assert 'found "@"' in problem.message
    assert problem.line == line
    assert problem.column == offset - max(before.rfind("\n"), before.rfind("\r"))
