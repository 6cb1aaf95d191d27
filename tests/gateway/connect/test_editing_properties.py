"""In any file, adding one server and removing it again changes nothing else."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pyjson5
from hypothesis import given
from hypothesis import strategies as st

from gateway.connect.clients import CLIENTS
from gateway.connect.entries import with_server, without_server

ZED, CODEX = CLIENTS["zed"], CLIENTS["codex"]
FILE = Path("/home/me/settings")
ENTRY = {"command": "/opt/memory-gateway", "args": ["serve"]}
NAME = "memory-gateway"

NAMES = st.text(max_size=6).filter(lambda name: name != ZED.key)
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)  # fmt: skip
GAPS = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t", "/* {,} */", ' // "a": {\n', "\n\n"])


@st.composite
def written(draw, value):
    """Draws a value with anything that may be between its parts: blanks, comments, a last comma."""
    if isinstance(value, dict):
        parts = [
            f"{draw(GAPS)}{json.dumps(name)}{draw(GAPS)}:{draw(GAPS)}{draw(written(member))}{draw(GAPS)}"
            for name, member in value.items()
        ]
        return f"{{{','.join(parts)}{_last(draw, parts)}{draw(GAPS)}}}"
    if isinstance(value, list):
        parts = [f"{draw(GAPS)}{draw(written(item))}{draw(GAPS)}" for item in value]
        return f"[{','.join(parts)}{_last(draw, parts)}{draw(GAPS)}]"
    return json.dumps(value)


def _last(draw, parts):
    return "," if parts and draw(st.booleans()) else ""


@st.composite
def files(draw):
    """Draws a file as values and as text, mostly with some servers in it."""
    values = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    if draw(st.booleans()):
        values[ZED.key] = draw(st.dictionaries(st.text(max_size=4), VALUES, max_size=2))
        values = dict(draw(st.permutations(list(values.items()))))
    return values, f"{draw(GAPS)}{draw(written(values))}{draw(GAPS)}"


@given(files())
def test_json_with_comments(made):
    values, text = made
    assert pyjson5.decode(text) == values
    after = with_server(ZED, text, FILE, NAME, ENTRY)
    assert pyjson5.decode(after) == values | {ZED.key: {**values.get(ZED.key, {}), NAME: ENTRY}}
    back = without_server(ZED, after, FILE, NAME, bare=ZED.key not in values)
    assert pyjson5.decode(back) == values
    if values.get(ZED.key, {} if ZED.key in values else values):
        assert back == text  # if there was something beside it


LINES = [
    "a = 1", "b.c = 'x'  # [not.a.table]", "", "# [mcp_servers.memory-gateway]", "d = [\n  [1],\n  [2],\n]",
    'e = """\n[f]\n"""', "g = { h = 1 }",
]  # fmt: skip
TABLES = [
    "[mcp_servers.other]\ncommand = 'x'", "[mcp_servers.other.env]\nK = 'v'", '[projects."/a b"]\nt = 1',
    "[[j]]\nk = 1", "[mcp_servers.memory-gateway-2]\ncommand = 'y'", "[l]", "# end",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(LINES), unique=True),
    st.lists(st.sampled_from(TABLES), unique=True),
    st.sampled_from(["\n", "\r\n"]),
)
def test_toml(lines, tables, newline):
    text = newline.join((*lines, *tables, "")).replace("\r\n", "\n").replace("\n", newline)
    values = tomllib.loads(text)
    after = with_server(CODEX, text, FILE, NAME, ENTRY)
    servers = {**values.get(CODEX.key, {}), NAME: ENTRY}
    assert tomllib.loads(after) == values | {CODEX.key: servers}
    assert without_server(CODEX, after, FILE, NAME, bare=False) == text
