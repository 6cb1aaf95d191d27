"""The walks of docs/reading.md are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/reading.md").read_text(encoding="utf-8")
WALKS = re.findall(r"## ([^\n]+)\n\n```text\n(.*?)```", TEXT, re.DOTALL)
PLACE = re.compile(r"# ((?:gateway|backends|providers|config)/\S+) ([\w.]+)$")
BUILT_IN = {"tuple"}


def source_of(path, name):
    """Returns the source of a function, including the functions within it."""
    text = (ROOT / f"{path}.py").read_text(encoding="utf-8")
    node = ast.parse(text)
    for part in name.split("."):
        node = next(one for one in node.body if getattr(one, "name", None) == part)
    return ast.get_source_segment(text, node)


def steps(walk):
    """Yields each line of a walk, with the function that it belongs to."""
    place = None
    for line in walk.splitlines():
        named = PLACE.search(line)
        place = named.groups() if named else place
        yield place, line.partition("#")[0].rstrip()


@pytest.mark.parametrize(("title", "walk"), WALKS, ids=[title for title, _ in WALKS])
def test_what_a_walk_says_is_called_is_called_there(title, walk):
    for place, line in steps(walk):
        source = source_of(*place)
        called = set(re.findall(r"(\w+)\(", line)) - BUILT_IN
        assert called, line
        lacking = {name for name in called if not re.search(rf"\b{name}\b", source)}
        assert not lacking, (place, line)


@pytest.mark.parametrize(("title", "walk"), WALKS, ids=[title for title, _ in WALKS])
def test_a_walk_is_read_on_one_screen(title, walk):
    assert len(walk.splitlines()) <= 26


def test_there_are_two_walks():
    assert [title for title, _ in WALKS] == ["A search", "A saved note"]
