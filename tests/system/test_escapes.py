"""Paths that try to leave the memory, through the real pipe: nothing outside is ever shown."""

from __future__ import annotations

import json
import os
import unicodedata
from urllib.parse import quote

import anyio
import pytest

from gateway.client import RemoteError

pytestmark = pytest.mark.anyio

SECRET = "kestrel-outside-canary"
WAIT_S = 60

DOTS = ["..", "．．", "‥", "․․", "%2e%2e", "%252e%252e", "..%00", "..\x00", "..;", ".. ", "..."]
SLASHES = ["/", "\\", "／", "∕", "⁄", "＼", "%2f", "%5c", "//", "/./", "/\x00/"]
CLIMBS = [
    f"memory{slash}{dots}{slash}{dots}{slash}outside.md" for dots in DOTS for slash in SLASHES
]
OTHERS = [
    "../outside.md", "../../outside.md", "memory/../../outside.md", "memory/../../../etc/passwd",
    "/etc/passwd", "/proc/self/environ", "/proc/self/cwd/outside.md", "/proc/self/root/outside.md",
    "/dev/stdin", "/dev/fd/0", "file:///etc/passwd", "~/outside.md", "$HOME/outside.md",
    "memory/link.md", "memory/directory/outside.md", "memory/loop/loop/loop/outside.md",
    "memory/dangling.md", "memory/fifo.md", "memory/socket.md", "memory/device.md",
 "memory/a.md/..", "memory/a.md/../../../outside.md", "memory", "memory/", ".", "",
    " ../outside.md ", "memory/../../outside.md\n", "\n../outside.md", "memory\x00/../../outside.md",
    "memory/a.md\x00.md", "notes/private.md", "MEMORY.MD", "Memory/A.md", "MEMORY/a.md",
    "sessions/one.jsonl", "sessions/one", "qmd/sessions/one.md", "qmd/../outside.md",
    "qmd/memory-dir/../../outside.md", "qmd/memory-root/outside.md", "qmd//etc/passwd",
    "../state/memory/main.memory-gateway.sqlite", "../openclaw.json", "vault/../outside.md", "../vault/../outside.md",
    "../vault/link.md", "../vault2/outside.md", "../vault", "\x1b]0;owned\x07.md", "\u202egpj.md",
    unicodedata.normalize("NFD", "memory/café.md") + "/../../../outside.md",
    "memory/" + "../" * 600 + "outside.md", "memory/" + "a" * 300 + ".md", "a/" * 1500 + "b.md",
]  # fmt: skip


@pytest.fixture
def trapped(home):
    """A memory with every kind of way out of it, and a secret at the end of each."""
    (home.root / "outside.md").write_text(SECRET, encoding="utf-8")
    for place in ("notes/private.md", "elsewhere/outside.md"):
        home.write(place, SECRET)
    home.write("memory/a.md", "# A\n\n- inside\n")
    memory, vault = home.workspace / "memory", home.root / "vault"
    (vault).mkdir()
    (vault / "b.md").write_text("# B\n\n- inside the vault\n", encoding="utf-8")
    (home.root / "vault2").mkdir()
    (home.root / "vault2/outside.md").write_text(SECRET, encoding="utf-8")
    for link, target in {
        memory / "link.md": home.root / "outside.md",
        memory / "directory": home.root,
        memory / "loop": memory,
        memory / "dangling.md": home.root / "nowhere.md",
        memory / "proc": "/proc/self",
        vault / "link.md": home.root / "outside.md",
    }.items():
        link.symlink_to(target)
    os.mkfifo(memory / "fifo.md")
    sessions = home.state / "agents/main/sessions"
    sessions.mkdir(parents=True)
    (sessions / "one.jsonl").write_text(json.dumps({"role": "user", "content": SECRET}) + "\n")
    home.configure(
        {"agents": {"defaults": {"memorySearch": {"provider": "none", "extraPaths": [str(vault)]}}}}
    )
    return home


async def test_no_path_leads_out(trapped):
    async with trapped.gateway() as client:
        with anyio.fail_after(WAIT_S):
            await client.call("sync")
            for path in [*CLIMBS, *OTHERS]:
                if not path.strip():
                    continue
                params = {"path": path}
                answer = await client.call("memory_get", params)
                called = await client.call(
                    "tools/call", {"name": "memory_get", "arguments": params}
                )
                uri = f"memory:///{quote(path, safe='/')}"
                with pytest.raises(RemoteError) as refused:
                    await client.call("resources/read", {"uri": uri})
                assert SECRET not in str(refused.value)
                assert answer["status"] in {"error", "not_found"}, path
                assert answer["text"] == "", path
                assert SECRET not in json.dumps([answer, called]), path
            inside = [
                await client.call("memory_get", {"path": p})
                for p in ("memory/a.md", "../vault/b.md")
            ]
            assert all("inside" in one["text"] for one in inside)
            found = await client.call("memory_search", {"query": SECRET, "minScore": 0})
            status = await client.call("status")
    assert SECRET not in json.dumps([found, status])
    skipped = {one["path"] for one in status["skipped"]}
    assert {"memory/link.md", "memory/directory", "memory/fifo.md", "../vault/link.md"} <= skipped


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_a_name_is_found_and_read_in_the_form_it_has(home, form):
    name = "memory/" + unicodedata.normalize(form, "Café Ångström 한글.md")
    home.write(name, "# Kestrel\n\n- The kestrel nests.\n")
    async with home.gateway() as client:
        await client.call("sync")
        (hit,) = (await client.call("memory_search", {"query": "kestrel"}))["results"]
        assert hit["path"] == name
        assert "nests" in (await client.call("memory_get", {"path": name}))["text"]


async def test_twins_that_differ_by_case_or_compatibility_are_files_of_their_own(home):
    names = [
        "memory/Note.md",
        "memory/note.md",
        "memory/ｎote.md",
        "memory/noteﬁ.md",
        "memory/notefi.md",
    ]
    for number, name in enumerate(names):
        home.write(name, f"kestrel number {number}\n")
    async with home.gateway() as client:
        await client.call("sync")
        texts = [(await client.call("memory_get", {"path": name}))["text"] for name in names]
    assert texts == [f"kestrel number {number}\n" for number in range(len(names))]


async def test_a_hard_link_from_outside_is_a_file_of_the_workspace(home):
    """This is documented: making one takes the right to write into the workspace."""
    (home.root / "linked.md").write_text("kestrel\n", encoding="utf-8")
    (home.workspace / "memory/hard.md").hardlink_to(home.root / "linked.md")
    async with home.gateway() as client:
        assert (await client.call("memory_get", {"path": "memory/hard.md"}))["text"] == "kestrel\n"


async def test_a_link_as_workspace_is_the_operators_and_one_within_is_nobodys(home, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(home.workspace)
    home.workspace = link
    (link / "memory").rename(link / "real")
    (link / "memory").symlink_to(link / "real")
    async with home.gateway() as client:
        await client.call("sync")
        assert "Hartmann" in (await client.call("memory_get", {"path": "MEMORY.md"}))["text"]
        denied = await client.call("memory_get", {"path": "memory/2026-02-01.md"})
    assert (denied["status"], denied["text"]) == ("error", "")


@pytest.mark.parametrize("target", ["daily", "longterm"])
async def test_an_entry_is_never_written_through_a_link(home, target):
    outside = home.root / "outside"
    outside.mkdir()
    (outside / "MEMORY.md").write_text("before\n", encoding="utf-8")
    (home.workspace / "MEMORY.md").unlink()
    (home.workspace / "MEMORY.md").symlink_to(outside / "MEMORY.md")
    for note in (home.workspace / "memory").rglob("*.md"):
        note.unlink()
    (home.workspace / "memory/projects").rmdir()
    (home.workspace / "memory").rmdir()
    (home.workspace / "memory").symlink_to(outside)
    home.configure({"memory": {"append": {"enabled": True}}})
    params = {"text": "- owned", "target": target, "sessionKey": "agent:main:main"}
    async with home.gateway() as client:
        with pytest.raises(Exception, match=r"MEMORY.md|memory/"):
            await client.call("memory_append", params)
    assert [file.name for file in outside.iterdir()] == ["MEMORY.md"]
    assert (outside / "MEMORY.md").read_text(encoding="utf-8") == "before\n"
