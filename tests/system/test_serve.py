"""The real process over its real pipe: answering, staying fresh, refusing, ending."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from config.errors import ErrorKind
from gateway.client import RemoteError

pytestmark = pytest.mark.anyio


PATIENCE_S = 120


ROOT = Path(__file__).resolve().parents[2]


async def search(client, query, **params):
    with anyio.fail_after(2 * PATIENCE_S):
        return await client.call("memory_search", {"query": query, **params})


def paths(result):
    return [hit["path"] for hit in result["results"]]


async def test_a_search_right_after_the_first_start_finds_a_note(home):
    async with home.gateway() as client:
        result = await search(client, "heating pump membrane")
        assert paths(result)[0] == "memory/2026-02-01.md"
        top = result["results"][0]
        assert "Ordered a new membrane" in top["snippet"]
        assert top["startLine"] <= 6 <= top["endLine"]
        assert 0.35 <= top["score"] <= 1
        assert result["outcome"] == "ok"
        assert result["backend"] == "builtin"
        assert result["mode"] == "keyword"


async def test_every_script_and_identifiers_are_found(home):
    answers = {
        "茶叶价格": "memory/2026-02-02.md",
        "когда тренировки": "memory/2026-02-02.md",
        "a828e60": "memory/projects/server.md",
        "memorySearch.query.hybrid": "memory/projects/server.md",
        "who services boilers?": "MEMORY.md",
    }
    async with home.gateway() as client:
        for query, path in answers.items():
            assert paths(await search(client, query))[:1] == [path]


async def test_a_note_is_found_by_the_search_that_follows_its_writing(home):
    async with home.gateway() as client:
        await client.call("sync", {})
        for number in range(5):
            home.write(f"memory/2026-03-0{number + 1}.md", f"- Token kestrel{number} was seen.\n")
            assert paths(await search(client, f"kestrel{number}")) == [
                f"memory/2026-03-0{number + 1}.md"
            ]
        (home.workspace / "memory/2026-03-01.md").write_text("- Nothing.\n", encoding="utf-8")
        assert (await search(client, "kestrel0"))["outcome"] == "empty"


async def test_a_deleted_note_is_never_returned(home):
    async with home.gateway() as client:
        assert paths(await search(client, "greenhouse sensor"))
        (home.workspace / "memory/2026-02-01.md").unlink()
        assert paths(await search(client, "greenhouse sensor")) == []


async def test_memory_get_reads_lines_and_refuses_everything_else(home, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("secret", encoding="utf-8")
    (home.workspace / "memory/link.md").symlink_to(secret)
    async with home.gateway() as client:
        part = await client.call(
            "memory_get", {"path": "memory/2026-02-01.md", "from": 5, "lines": 1}
        )
        assert part["text"] == "- The greenhouse sensor reported minus four degrees."
        missing = await client.call("memory_get", {"path": "memory/2026-12-31.md"})
        assert (missing["status"], missing["text"]) == ("not_found", "")
        for path in ["/etc/passwd", "../secret.md", str(secret), "memory/link.md", "notes.txt"]:
            refused = await client.call("memory_get", {"path": path})
            assert refused["status"] == "error", path
            assert refused["kind"] == "path_not_allowed"
            assert "secret" not in refused["text"]


async def test_wrong_parameters_are_named(home):
    async with home.gateway() as client:
        for params, named in [
            ({"qery": "x"}, "qery"),
            ({"query": "x", "maxResults": 0}, "maxResults"),
            ({"query": "x", "minScore": 7}, "minScore"),
            ({"query": "  "}, "query"),
            ({"query": "x", "after": "yesterday"}, "after"),
            ({}, "query"),
        ]:
            with pytest.raises(RemoteError) as caught:
                await client.call("memory_search", params)
            assert caught.value.kind is ErrorKind.INVALID_PARAMS
            assert named in str(caught.value)
        assert paths(await search(client, "boiler"))


async def test_search_syntax_in_a_query_is_plain_text(home):
    async with home.gateway() as client:
        for query in [
            '"',
            "boiler AND",
            "NEAR(a b)",
            "^boiler",
            "body: boiler",
            "-boiler",
            "*",
            "((",
            "\x00",
            "'; DROP TABLE chunks; --",
            "😀",
        ]:
            assert (await search(client, query))["outcome"] in {"ok", "empty"}
        assert paths(await search(client, '"boiler" NEAR* (serviced'))[:1] == ["MEMORY.md"]


async def test_slow_work_does_not_delay_other_requests(home):
    for number in range(100):
        home.write(f"memory/big/{number}.md", f"# Note {number}\n\n" + "word " * 2000)
    async with home.gateway() as client:
        done = []

        async def sync():
            await client.call("sync", {"force": True}, timeout_s=PATIENCE_S)
            done.append("sync")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sync)
            for _ in range(3):
                await client.call("health")
                done.append("health")
        assert done[-1] == "sync"


async def test_a_sync_reports_progress_and_what_it_skipped(home):
    (home.workspace / "memory/broken.md").write_bytes(b"caf\xe9 \x00 menu\n")
    (home.workspace / "memory/link.md").symlink_to("/etc/hostname")
    async with home.gateway() as client:
        notified = []
        client.notified = lambda method, params: notified.append((method, params["requestId"]))
        report = await client.call("sync", {"force": True})
        assert set(notified) == {("notifications/progress", 1)}
        assert report["scanned"] == 5
        assert {one["path"] for one in report["skipped"]} == {"memory/link.md"}
        assert paths(await search(client, "menu")) == ["memory/broken.md"]
        status = await client.call("status")
        assert status["files"] == 5
        assert not status["dirty"]
        assert status["sources"][0]["indexed"] == 5


@pytest.mark.parametrize("stop", ["eof", "SIGTERM", "SIGINT", "shutdown"])
@pytest.mark.promises_seconds
async def test_every_orderly_end_takes_under_two_seconds_and_exits_with_zero(home, stop):
    async with home.gateway() as client:
        await search(client, "boiler")
        process = client.process
        if stop == "eof":
            await process.stdin.aclose()
        elif stop == "shutdown":
            assert await client.call("shutdown") == {"stopping": True}
        else:
            process.send_signal(getattr(signal, stop))
        with anyio.fail_after(2):
            assert await process.wait() == 0
    assert not list((home.state / "memory").glob("*-journal"))
    assert not list((home.state / "memory").glob("*-wal"))


def test_answers_to_all_lines_are_written_before_the_process_ends_with_its_input(home):
    lines = [
        {"jsonrpc": "2.0", "id": number, "method": "memory_search", "params": {"query": "boiler"}}
        for number in range(20)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", *home.arguments],
        input="".join(json.dumps(line) + "\n" for line in lines) + "{broken\n",
        env=home.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(reply["id"] for reply in replies if reply["id"] is not None) == list(range(20))
    broken = next(reply for reply in replies if reply["id"] is None)
    assert broken["error"]["data"]["kind"] == "parse_error"


def test_a_directory_as_input_ends_python_itself_before_any_program_begins(tmp_path):
    """This is documented: the gateway cannot answer it, and nothing is written."""
    state = tmp_path / "state"
    ours = ("-m", "gateway", "serve", "--state-dir", str(state))
    for arguments in (ours, ("-c", "print('begun')")):
        descriptor = os.open(tmp_path, os.O_RDONLY)
        try:
            done = subprocess.run(
                [sys.executable, *arguments], stdin=descriptor, capture_output=True, check=False
            )
        finally:
            os.close(descriptor)
        assert (done.returncode, done.stdout) == (1, b"")
        first = done.stderr.decode().splitlines()[0]
        assert first.endswith("init_sys_streams: <stdin> is a directory, cannot continue")
        assert first in (ROOT / "docs/reliability.md").read_text("utf-8")
    assert not state.exists()


def test_a_killed_process_leaves_an_index_that_the_next_one_uses(home):
    for number in range(300):
        home.write(f"memory/many/{number}.md", f"- Entry {number} about falcon{number}.\n")
    command = [sys.executable, "-m", "gateway", "serve", *home.arguments]
    for _ in range(3):
        process = subprocess.Popen(
            command, env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        line = {"jsonrpc": "2.0", "id": 1, "method": "memory_search", "params": {"query": "x"}}
        process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.kill()
        process.wait(timeout=60)
        process.stdin.close()
        process.stdout.close()
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "search", "falcon299", "--json", *home.arguments],
        env=home.environment, capture_output=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["results"]


def test_the_index_of_another_program_at_the_documented_place_is_left_alone(home):
    import sqlite3

    place = home.state / "memory/main.sqlite"
    place.parent.mkdir(parents=True)
    with sqlite3.connect(place) as foreign:
        foreign.execute("CREATE TABLE chunks (id TEXT)")
    foreign.close()
    before = place.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "status", "--json", *home.arguments],
        env=home.environment, capture_output=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    status = json.loads(done.stdout)
    assert status["databasePath"].endswith("main.memory-gateway.sqlite")
    assert not any("main.sqlite" in issue for issue in status["issues"])
    assert place.read_bytes() == before


def test_the_user_s_markdown_is_never_written(home):
    before = _stamps(home.workspace)
    for command in (["index", "--force"], ["search", "boiler"], ["get", "MEMORY.md"], ["status"]):
        subprocess.run(
            [sys.executable, "-m", "gateway", *command, *home.arguments],
            env=home.environment, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
    assert _stamps(home.workspace) == before


def test_the_index_and_its_directory_are_private(home):
    subprocess.run(
        [sys.executable, "-m", "gateway", "index", *home.arguments],
        env=home.environment, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    directory = home.state / "memory"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}


async def test_switched_off_memory_says_so_and_touches_nothing(home):
    home.configure({"plugins": {"slots": {"memory": "none"}}})
    async with home.gateway() as client:
        result = await search(client, "boiler")
        assert (result["disabled"], result["outcome"], result["results"]) == (True, "disabled", [])
        assert "plugins.slots.memory" in result["error"]
        assert (await client.call("health"))["status"] == "ok"
    assert not (home.state / "memory").exists()


def _stamps(directory: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(file): (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        for file in sorted(directory.rglob("*"))
        for status in [os.lstat(file)]
    }
