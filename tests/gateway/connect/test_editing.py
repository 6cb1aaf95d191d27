"""One server added to or removed from a client's file: nothing else changes, comments and spaces included."""

from __future__ import annotations

import json
import tomllib
from itertools import takewhile
from pathlib import Path

import pyjson5
import pytest

from config.errors import ConfigInvalidError
from fakes.each import each
from gateway.connect.clients import CLIENTS
from gateway.connect.entries import entry_lines, servers_in, with_server, without_server

CLAUDE, CODEX, ZED = CLIENTS["claude-code"], CLIENTS["codex"], CLIENTS["zed"]
FILE = Path("/home/me/settings")
ENTRY = {"command": "/opt/memory-gateway", "args": ["serve", "--notes", '/n/"ä\\ \x7f']}

JSON = {
    "empty": "",
    "blank": "\n",
    "nothing": "{}",
    "nothing, spaced": "{ \n }\n",
    "one line": '{"a": 1}',
    "others": '{\n  "a": 1,\n  "mcpServers": {\n    "x": {"command": "y"}\n  }\n}\n',
    "others in one line": '{"mcpServers": {"x": {"command": "y"}}, "b": 1.0}',
    "no server": '{\n  "mcpServers": {},\n  "b": 2\n}',
    "tabs": '{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n',
    "four spaces": '{\n    "mcpServers": {\n        "x": {}\n    }\n}\n',
    "windows": '{\r\n  "a": 1\r\n}\r\n',
    "byte order mark": '\ufeff{\n  "a": 1\n}\n',
    "escapes": '{"\\u00e4": "\\u00e4ä", "n": 1e3}',
}
COMMENTED = {
    "comments": '// Zed\n{ // all\n  // first\n  "a": 1, // one\n  /* two */ "b": [2,],\n  // end\n}\n// over\n',
    "only a comment": "{\n  // nothing yet\n}\n",
    "servers with comments": '{\n  "context_servers": { // mine\n    // old\n    "x": {}, // keep\n  },\n}\n',
}
TOML = {
    "empty": "",
    "top": "model = 'x'  # mine\n",
    "no end of line": "model = 'x'",
    "tables": "# top\na = 1\n\n[mcp_servers.o]\ncommand='true'\n\n[projects.\"/a\"]\ntrust = 'y'\n",
    "dotted": "mcp_servers.o.command = 'x'\nb = 1\n",
    "a table of tables": "[mcp_servers]\n[mcp_servers.o]\ncommand='x'\n[z]\n[[y]]\n",
    "windows": "a = 1\r\n[b]\r\nc = 2\r\n",
}
FILES = [
    *((CLAUDE, text) for text in JSON.values()),
    *((ZED, text.replace("mcpServers", "context_servers")) for text in JSON.values()),
    *((ZED, text) for text in COMMENTED.values()),
    *((CODEX, text) for text in TOML.values()),
]


def values(client, text):
    if client is CODEX:
        return tomllib.loads(text)
    return pyjson5.decode(text) if text.strip() else {}


def alike(one, other):
    """Returns the number of characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@each(("client", "text"), FILES)
def test_a_server_is_added_and_all_else_stays(client, text):
    after = with_server(client, text, FILE, "memory-gateway", ENTRY)
    expected = values(client, text.removeprefix("\ufeff"))
    expected[client.key] = {**(expected.get(client.key) or {}), "memory-gateway": ENTRY}
    assert values(client, after.removeprefix("\ufeff")) == expected
    old, new = "".join(text.split()), "".join(after.split())
    kept = alike(old, new) + alike(old[::-1], new[::-1])
    assert kept >= len(old)  # one piece was put in, nothing taken out


@each(("client", "text"), FILES)
def test_what_was_added_can_be_removed_again(client, text):
    before = values(client, text.removeprefix("\ufeff"))
    after = with_server(client, text, FILE, "memory-gateway", ENTRY)
    bare = client.key not in before
    back = without_server(client, after, FILE, "memory-gateway", bare=bare)
    assert values(client, back.removeprefix("\ufeff")) == before
    assert back.startswith("\ufeff") == text.startswith("\ufeff")


EXACT = [
    *((CLAUDE, JSON[name]) for name in ("others", "tabs", "four spaces", "windows")),
    (CLAUDE, JSON["others in one line"]),
    (CLAUDE, JSON["one line"]),
    (CLAUDE, JSON["byte order mark"]),
    *((ZED, text) for text in COMMENTED.values()),
    *((CODEX, TOML[name]) for name in ("top", "tables", "dotted", "a table of tables")),
]


@each(("client", "text"), EXACT)
def test_a_file_with_anything_in_it_is_byte_for_byte_as_before_even_without_a_copy(client, text):
    after = with_server(client, text, FILE, "memory-gateway", ENTRY)
    assert without_server(client, after, FILE, "memory-gateway", bare=True) == text


def test_json_without_comments_stays_json():
    for text in JSON.values():
        after = with_server(CLAUDE, text, FILE, "m", ENTRY).removeprefix("\ufeff")
        assert json.loads(after)["mcpServers"]["m"] == ENTRY


@each(
    ("before", "after"),
    [
        ('{"s": {"a": 1, "m": {}}}', '{"s": {"a": 1}}'),
        ('{"s": {"m": {}, "a": 1}}', '{"s": {"a": 1}}'),
        ('{"s": {\n  "a": 1, // one\n  "m": {}\n}}', '{"s": {\n  "a": 1 // one\n}}'),
        ('{"s": {\n  "a": 1,\n  // mine\n  "m": {},\n}}', '{"s": {\n  "a": 1,\n  // mine\n}}'),
    ],
)
def test_a_server_that_a_client_has_moved_is_removed_where_it_stands(before, after):
    key = "context_servers"
    text = without_server(ZED, before.replace('"s"', f'"{key}"'), FILE, "m", bare=False)
    assert " ".join(text.split()) == " ".join(after.replace('"s"', f'"{key}"').split())


def test_a_table_goes_with_those_below_it_and_comments_stay():
    text = (
        "a = 1\n\n[mcp_servers.m]\ncommand = 'x'\n\n[mcp_servers.m.env]\nK = 'v'\n\n"
        "# mine\n[b]\nc = 1\n"
    )
    assert without_server(CODEX, text, FILE, "m", bare=False) == "a = 1\n\n# mine\n[b]\nc = 1\n"


@each(
    "inside",
    [
        "# why\nargs = ['serve']\n",
        "args = ['serve']\n\nrequired = true\n",
        "args = ['serve']\n# it has to be there\nrequired = true\n",
        "args = [\n  'serve',\n  [\n[1],\n],\n]\n",
        'about = """\n[b]\n\n# no comment"""\n',
        "about = '''\n[mcp_servers.m]\n'''\n\n[mcp_servers.m.env]\n\n# a key\nK = 'v'\n",
    ],
)
@each("after", ["", "\n# mine\n[b]\nc = 1\n", "[[b]]\nc = 1\n", "\n# the end\n"])
def test_a_table_goes_whatever_stands_in_it(inside, after):
    text = f"a = 1\n\n[mcp_servers.m]\ncommand = 'x'\n{inside}{after}"
    assert without_server(CODEX, text, FILE, "m", bare=False) == f"a = 1\n{after}"
    quoted = f"a = '''\n[mcp_servers.m]\nx'''\n{text[6:]}"
    left = without_server(CODEX, quoted, FILE, "m", bare=False)
    assert left == f"a = '''\n[mcp_servers.m]\nx'''\n{after}"


def test_what_cannot_be_taken_out_is_named_for_taking_it_out_by_hand():
    text = "[mcp_servers]\nm = { command = 'x', args = ['serve'] }\n"
    with pytest.raises(ConfigInvalidError) as caught:
        without_server(CODEX, text, FILE, "m", bare=False)
    assert caught.value.remedy == "Take m out of its mcp_servers by hand."


def test_variables_of_an_entry_are_a_table_of_their_own():
    text = with_server(CODEX, "", FILE, "m", {**ENTRY, "env": {"A": "b"}})
    assert tomllib.loads(text)["mcp_servers"]["m"]["env"] == {"A": "b"}


@each(
    ("client", "text", "why"),
    [
        (CLAUDE, "{", "unclosed object"),
        (CLAUDE, "[]", "a list at the top"),
        (CLAUDE, '{"mcpServers": []}', "mcpServers holds no servers"),
        (CODEX, "a = ", "no valid TOML"),
        (CODEX, "mcp_servers = 5", "mcp_servers holds no servers"),
        (CODEX, "mcp_servers = { o = { command = 'x' } }", "cannot be edited"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_with_the_reason(client, text, why):
    with pytest.raises(ConfigInvalidError, match=why):
        with_server(client, text, FILE, "m", ENTRY)


def test_a_server_written_in_one_line_of_toml_is_left_to_its_owner():
    text = "[mcp_servers]\nm = { command = '/x', args = ['serve'] }\n"
    assert list(servers_in(CODEX, text, FILE)) == ["m"]
    with pytest.raises(ConfigInvalidError, match="cannot be edited"):
        without_server(CODEX, text, FILE, "m", bare=False)


def test_an_entry_is_shown_as_it_is_written():
    for client in (ZED, CODEX):
        shown = "\n".join(entry_lines(client, "memory-gateway", ENTRY))
        written = with_server(client, "", FILE, "memory-gateway", ENTRY)
        assert "".join(shown.split()) in "".join(written.split())
