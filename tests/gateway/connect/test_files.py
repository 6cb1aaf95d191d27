"""Ten rounds of connecting and disconnecting leave a client's file byte for byte as it was, and its mode."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from msgspec.structs import replace

from backends.interface import FileUnreadableError, FileUnwritableError
from config.errors import ConfigInvalidError
from config.runtime.files import keep_copy
from fakes.each import each
from gateway.cli.arguments import ClientName, HookOf
from gateway.connect import entries
from gateway.connect.clients import CLIENTS, Surroundings, is_ours
from gateway.connect.entries import carry_out, connected, plan_change, servers_in, with_server
from gateway.recall import HookClient

ROOT = Path(__file__).parents[3]
COMMAND = ("/opt/bin/memory-gateway", "serve", "--notes", "/home/me/notes")
NAME = "memory-gateway"
LIVED_IN = {
    "claude-code": '{"numStartups": 3, "x": 1.0,\n   "mcpServers": {"o": {"command":"true"}}, "z": "\\u00e9é"}',
    "claude-desktop": '{"globalShortcut": ""}',
    "codex": "# mine\nmodel = 'o3'   # trailing\n\n[mcp_servers.o]\ncommand='true'\n[projects.\"/x\"]\n",
    "gemini": '{\n    // a comment\n    "theme": "Default",\n    "mcpServers": { "o": {} },\n}',
    "cursor": '{\n\t"mcpServers": {}\n}\n\n',
    "vscode": '{\r\n  "servers": {},\r\n  "inputs": [ ]\r\n}',
    "zed": '// Zed settings\n{\n  "theme": "One", // nice\n  /* end */\n}',
    "windsurf": "  ",
}


def lived_in(client):
    """Returns an example of the client's file; a new client needs none of its own."""
    return LIVED_IN.get(client.name, '{\n  "theme": "dark"\n}\n')


def begins_empty(client):
    """Returns whether the example has nothing, or an empty object, where the servers stand."""
    return not lived_in(client).strip() or f'"{client.key}": {{}}' in lived_in(client)


@pytest.fixture
def there(tmp_path):
    return Surroundings({"PATH": ""}, tmp_path, tmp_path)


@pytest.fixture(params=CLIENTS)
def client(request):
    return CLIENTS[request.param]


def write(client, there, text, mode=0o640):
    path = client.file(there)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


def join(client, there, *, name=NAME, command=COMMAND):
    plan = plan_change(client, there, name, client.entry(command))
    return carry_out(plan).copy if plan.changes else None


def leave(client, there, name=NAME):
    plan = plan_change(client, there, name, None)
    return carry_out(plan).copy if plan.changes else None


def left_in(path):
    return sorted(one.name for one in path.parent.iterdir())


def test_ten_rounds_leave_no_trace(client, there):
    path = write(client, there, lived_in(client))
    before = path.read_bytes()
    for _ in range(10):
        copy = join(client, there)
        assert list(connected(client, there)) == [NAME]
        assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (before, 0o640)
        assert path.stat().st_mode & 0o777 == 0o640
        assert leave(client, there) is None
        assert path.read_bytes() == before
        assert path.stat().st_mode & 0o777 == 0o640
    assert left_in(path) == [path.name]


def test_ten_rounds_where_there_was_no_file_leave_none(client, there):
    for _ in range(10):
        assert join(client, there) is None
        assert client.file(there).stat().st_mode & 0o777 == 0o600
        leave(client, there)
        assert left_in(client.file(there)) == []
    assert not client.is_installed(there)


@pytest.mark.parametrize("first", [NAME, "work"])
@pytest.mark.parametrize("is_there", [True, False])
def test_two_entries_of_ours_are_no_change_by_somebody_else(client, there, first, is_there):
    path = client.file(there)
    if is_there:
        write(client, there, lived_in(client))
    before = path.read_bytes() if is_there else None
    copy = join(client, there)
    assert join(client, there, name="work") is None
    assert left_in(path) == sorted({path.name, copy.name if copy else path.name})
    for name in (first, NAME if first == "work" else "work"):
        assert carry_out(plan_change(client, there, name, None)).restored
    assert (path.read_bytes() if path.exists() else None) == before
    assert left_in(path) == ([path.name] if is_there else [])


def test_beside_an_entry_of_ours_that_was_always_there_no_copy_is_left(there):
    client = CLIENTS["cursor"]
    entry = '{"command": "/x/memory-gateway", "args": ["serve"]}'
    path = write(client, there, f'{{"mcpServers": {{"mine": {entry}}}, "z": 1}}')
    before = path.read_bytes()
    join(client, there)
    assert carry_out(plan_change(client, there, NAME, None)).restored
    assert path.read_bytes() == before
    assert left_in(path) == [path.name]


def test_what_somebody_else_changed_beside_two_entries_of_ours_stays(there):
    client = CLIENTS["cursor"]
    path = write(client, there, lived_in(client))
    join(client, there)
    join(client, there, name="work")
    theirs = with_server(client, path.read_text(), path, "theirs", {"command": "x"})
    path.write_text(theirs)
    assert not carry_out(plan_change(client, there, NAME, None)).restored
    assert set(servers_in(client, path.read_text(), path)) == {"theirs", "work"}


def test_what_is_connected_is_not_connected_again(client, there):
    path = write(client, there, lived_in(client))
    join(client, there)
    once = path.read_bytes()
    plan = plan_change(client, there, NAME, client.entry(COMMAND))
    assert not plan.changes
    assert plan.after == once
    assert not plan_change(client, there, "another", None).changes


def test_what_a_person_connected_by_hand_in_a_form_that_cannot_be_edited_counts(there):
    client = CLIENTS["codex"]
    line = f"{NAME} = {{ command = '{COMMAND[0]}', args = {json.dumps(COMMAND[1:])} }}"
    write(client, there, f"[mcp_servers]\n{line}\n")
    assert not plan_change(client, there, NAME, client.entry(COMMAND)).changes
    with pytest.raises(ConfigInvalidError, match="cannot be edited"):
        leave(client, there)


def test_another_memory_replaces_the_entry_and_the_way_back_stays(client, there):
    path = write(client, there, lived_in(client))
    before = path.read_bytes()
    first = join(client, there)
    assert join(client, there, command=(*COMMAND[:-1], "/home/me/other")) == first
    assert connected(client, there)[NAME]["args"][-1] == "/home/me/other"
    leave(client, there)
    assert path.read_bytes() == before


def test_what_others_wrote_meanwhile_stays(client, there):
    path = write(client, there, lived_in(client))
    join(client, there)
    addition = "\n[added]\nby = 'others'\n" if client.form == "toml" else "\n// by others\n"
    path.write_bytes(path.read_bytes() + addition.encode())
    copy = leave(client, there)
    assert copy.read_bytes() == lived_in(client).encode()
    after = path.read_text("utf-8")
    assert after.endswith(addition)
    assert connected(client, there) == {}
    if not begins_empty(client):  # what was empty got a line break
        assert after.removesuffix(addition) == lived_in(client)


def test_a_file_that_its_client_lays_out_anew_is_still_undone(there):
    client = CLIENTS["claude-code"]
    values = {"a": 1, "mcpServers": {"o": {"command": "x"}}, "b": [1]}
    path = write(client, there, json.dumps(values, indent=2))
    join(client, there)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"more": True}, indent=2))
    leave(client, there)
    assert path.read_text() == json.dumps(values | {"more": True}, indent=2)


def test_a_server_of_that_name_which_is_not_ours_is_left_alone(client, there):
    foreign = {"command": "npx", "args": ["-y", "server-memory"]}
    path = write(client, there, "")
    path.write_text(entries.with_server(client, "", path, NAME, foreign), "utf-8")
    for attempt in (lambda: join(client, there), lambda: leave(client, there)):
        with pytest.raises(ConfigInvalidError, match="another server"):
            attempt()
    assert connected(client, there) == {}


def test_what_a_person_added_to_our_entry_stays_in_it(there):
    client = CLIENTS["cursor"]
    ours = {**client.entry(COMMAND), "env": {"OPENAI_API_KEY": "sk-secret"}}
    path = write(client, there, json.dumps({"mcpServers": {NAME: ours}}))
    join(client, there, command=(*COMMAND, "--claude-code"))
    found = json.loads(path.read_text())["mcpServers"][NAME]
    assert found == {**ours, "args": [*COMMAND[1:], "--claude-code"]}
    assert "sk-secret" not in str(entries.shown(found))


@pytest.mark.parametrize("linked", ["file", "directory"])
def test_links_are_not_followed_and_what_they_lead_to_is_not_touched(there, tmp_path, linked):
    client = CLIENTS["cursor"]
    path = client.file(there)
    target = tmp_path / "dotfiles"
    target.mkdir()
    (target / "mcp.json").write_text("{}")
    if linked == "file":
        path.parent.mkdir()
        path.symlink_to(target / "mcp.json")
    else:
        path.parent.symlink_to(target)
    with pytest.raises(FileUnwritableError, match="links are not followed"):
        join(client, there)
    assert (target / "mcp.json").read_text() == "{}"


def test_what_changes_between_looking_and_writing_is_not_overwritten(there):
    client = CLIENTS["cursor"]
    path = write(client, there, "{}")
    plan = plan_change(client, there, NAME, client.entry(COMMAND))
    path.write_text('{"new": 1}')
    with pytest.raises(FileUnwritableError, match="somebody else changed it"):
        carry_out(plan)
    assert path.read_text() == '{"new": 1}'
    assert left_in(path) == [path.name]


def test_a_directory_that_cannot_be_written_is_named_with_what_mends_it(unprivileged):
    client = CLIENTS["cursor"]
    with TemporaryDirectory() as home:  # under directories that anybody may enter
        there = Surroundings({"PATH": ""}, Path(home), Path(home))
        path = write(client, there, "{}", mode=0o644)
        path.parent.chmod(0o555)
        Path(home).chmod(0o755)
        with unprivileged(), pytest.raises(FileUnwritableError) as refused:
            join(client, there)
        assert f"cannot be replaced: {path.parent} belongs to" in str(refused.value)
        assert (refused.value.remedy or "").startswith("Give this user access: ")
        path.parent.chmod(0o755)


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"\xff\xfe{\x00", ConfigInvalidError), (b" " * (4 * 1024 * 1024 + 1), FileUnreadableError)],
)
def test_what_is_no_configuration_is_refused_and_stays(there, content, error):
    client = CLIENTS["cursor"]
    path = write(client, there, "")
    path.write_bytes(content)
    with pytest.raises(error):
        join(client, there)
    assert path.read_bytes() == content


def test_a_pipe_instead_of_a_file_is_refused_at_once(there):
    client = CLIENTS["cursor"]
    client.file(there).parent.mkdir()
    os.mkfifo(client.file(there))
    with pytest.raises(
        FileUnreadableError, match=r"no regular file\. Put a file of the client's own"
    ):
        join(client, there)


@pytest.mark.parametrize(
    ("variable", "name", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("GEMINI_CLI_HOME", "gemini", ".gemini/settings.json"),
        ("XDG_CONFIG_HOME", "zed", "zed/settings.json"),
    ],
)
def test_variables_of_the_clients_move_their_files(there, tmp_path, variable, name, file):
    moved = replace(there, environment={variable: str(tmp_path / "else")})
    assert CLIENTS[name].file(moved) == tmp_path / "else" / file


def test_on_macos_desktop_programs_have_theirs_in_the_library(there, tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.connect.clients.sys.platform", "darwin")
    library = tmp_path / "Library/Application Support"
    assert CLIENTS["vscode"].file(there) == library / "Code/User/mcp.json"
    assert CLIENTS["claude-desktop"].file(there).parent == library / "Claude"
    assert CLIENTS["zed"].file(there) == tmp_path / ".config/zed/settings.json"


@each(
    ("entry", "ours"),
    [
        ({"command": "/x/memory-gateway", "args": ["serve"]}, True),
        ({"command": "/x/python", "args": ["-E", "-P", "/y/start.py", "gateway", "serve"]}, True),
        ({"command": "uvx", "args": ["memory-gateway", "serve", "--agent", "a"]}, True),
        ({"command": "npx", "args": ["-y", "server-memory"]}, False),
        ({"command": "serve", "args": []}, False),
        ({"command": "memory-gateway", "args": "serve"}, False),
        ({"url": "https://x"}, False),
        ("memory-gateway serve", False),
    ],
)
def test_an_entry_is_ours_by_what_it_starts(entry, ours):
    assert is_ours(entry) is ours


def test_a_client_is_installed_if_its_command_or_anything_of_it_is_there(client, there, tmp_path):
    assert not client.is_installed(there)
    if client.programs:
        program = tmp_path / "bin" / client.programs[0]
        program.parent.mkdir()
        program.touch(0o755)
        found = replace(there, environment={"PATH": str(program.parent)})
        assert client.is_installed(found)
    write(client, there, "{}")
    assert client.is_installed(there)


def test_a_connection_that_was_killed_after_its_copy_leaves_none_behind(client, there):
    path = write(client, there, lived_in(client))
    before = path.read_bytes()
    keep_copy(path, before, mode=0o640)
    join(client, there)
    leave(client, there)
    assert path.read_bytes() == before
    assert list(path.parent.glob("*.before-memory-gateway*")) == []


@pytest.mark.parametrize("act", ["join", "leave"])
def test_what_the_client_writes_while_the_disk_is_slow_stays(there, monkeypatch, act):
    client = CLIENTS["claude-code"]
    path = write(client, there, LIVED_IN["claude-code"])
    if act == "leave":
        join(client, there)
    newer = path.read_bytes().replace(b"3", b"4")
    to_disk = os.fsync

    def slowly(descriptor):
        to_disk(descriptor)
        path.write_bytes(newer)

    monkeypatch.setattr(os, "fsync", slowly)
    with pytest.raises(FileUnwritableError, match="somebody else changed it"):
        (join if act == "join" else leave)(client, there)
    assert path.read_bytes() == newer
    assert [one.name for one in path.parent.iterdir() if "making" in one.name] == []


def test_extended_attributes_are_kept_and_other_names_of_the_file_are_told(there):
    client = CLIENTS["gemini"]
    path = write(client, there, LIVED_IN["gemini"])
    try:
        os.setxattr(path, "user.origin", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    os.link(path, path.with_name("linked.json"))
    plan = plan_change(client, there, NAME, client.entry(COMMAND))
    assert plan.warning == f"{path} has 2 names (hard links): the others keep what it says now."
    assert carry_out(plan).lost == ()
    assert os.getxattr(path, "user.origin") == b"mine"
    assert path.with_name("linked.json").read_text(encoding="utf-8") == LIVED_IN["gemini"]
    assert plan_change(client, there, NAME, None).warning is None


def test_help_and_pages_name_every_client_and_no_other():
    readme, page, recall_page = (
        ROOT.joinpath(name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/clients.md", "docs/recall.md")
    )
    hooked = {name: client for name, client in CLIENTS.items() if client.hooks is not None}
    listed = re.search(r"^ +memory-gateway connect \S+ .*# or (.*)$", readme, re.MULTILINE)[1]
    shown = re.findall(r"[\w-]+", re.search(r"connect (\S+) ", readme)[1] + ", " + listed)
    places = {
        "gateway/cli/arguments.py, the help of ClientName": _names_in(ClientName),
        "README.md, the line of `memory-gateway connect`": shown,
        "docs/clients.md, the table": re.findall(
            r"^\| [^|]+ \| `connect ([a-z][\w-]*)` \|", page, re.MULTILINE
        ),
    }
    hook_places = {
        "gateway/recall.py, HookClient": get_args(HookClient),
        "docs/recall.md, the table": re.findall(
            r"^\| [^|]+ \| `connect ([a-z][\w-]*)`", recall_page, re.MULTILINE
        ),
        "gateway/cli/arguments.py, the help of HookOf": [
            name for name in _names_in(HookOf) if name in CLIENTS
        ],
    }
    rows = [f"| {client.title} | `connect {name}` | " for name, client in CLIENTS.items()]
    to_edit = [
        *(place for place, names in places.items() if sorted(names) != sorted(CLIENTS)),
        *(place for place, names in hook_places.items() if sorted(names) != sorted(hooked)),
        *(f"docs/clients.md, the table: it lacks {row}" for row in rows if row not in page),
    ]
    assert not to_edit, "edit\n" + "\n".join(to_edit)


def _names_in(annotated):
    """Returns the names that the help of a parameter lists."""
    return re.findall(r"[\w-]+", re.sub(r" or (?=\S+\.$)", ", ", get_args(annotated)[1].help))
