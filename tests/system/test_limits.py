"""Limits of the pipe: a request at a limit is answered, and one beyond it gets an error that says so."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from backends.files.reading import MAX_TEXT_BYTES
from backends.interface import MAX_QUERY_CHARS
from gateway.client import RemoteError
from gateway.rpc.connection import ConnectionLimits
from gateway.tools.notes import MAX_ENTRY_BYTES
from gateway.tools.search import (
    MAX_GLOB_CHARS,
    MAX_GLOBS,
    MAX_KEY_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    MAX_RESULTS,
)

WAIT_S = 60
MAIN = "agent:main:main"
NAMES = {
    "a session key": ("memory_search", {"query": "q"}, "sessionKey", MAX_KEY_CHARS),
    "a session id": ("session_updated", {}, "sessionId", MAX_KEY_CHARS),
    "a path": ("memory_get", {}, "path", MAX_PATH_CHARS),
    "a reason": ("sync", {"wait": False}, "reason", MAX_NAME_CHARS),
    "a client's name": ("initialize", {}, "client", MAX_NAME_CHARS),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_a_word_is_as_long_as_it_may_be(home, name):
    method, rest, parameter, limit = NAMES[name]
    async with home.gateway() as client:
        await client.call(method, {**rest, parameter: "x" * limit})
        with pytest.raises(RemoteError, match=f"{parameter}.*at most {limit} characters"):
            await client.call(method, {**rest, parameter: "x" * (limit + 1)})


@pytest.mark.anyio
async def test_globs_are_as_many_and_as_long_as_they_may_be(home):
    good = ["x" * MAX_GLOB_CHARS] * MAX_GLOBS
    async with home.gateway() as client:
        await client.call("memory_search", {"query": "q", "include": good, "exclude": good})
        for bad in ([*good, "x"], ["x" * (MAX_GLOB_CHARS + 1)]):
            with pytest.raises(RemoteError, match=r"include.*at most 64 items"):
                await client.call("memory_search", {"query": "q", "include": bad})


@pytest.mark.anyio
async def test_what_of_a_search_is_not_heeded_is_said(home):
    filler = "x" * (MAX_QUERY_CHARS - len("greenhouse "))
    async with home.gateway() as client:
        await client.call("sync")
        for query, results, warning in (
            (f"greenhouse {filler}", MAX_RESULTS, None),
            (f"greenhouse {filler}x", MAX_RESULTS, "Only the first 20,000 of 20,001 characters"),
            ("greenhouse", MAX_RESULTS + 1, "At most 200 results"),
        ):
            params = {"query": query, "maxResults": results, "minScore": 0}
            found = await client.call("memory_search", params)
            assert found["results"][0]["path"] == "memory/2026-02-01.md"
            assert warning in found["warning"] if warning else "warning" not in found
        arguments = {"query": "greenhouse", "maxResults": MAX_RESULTS + 1}
        called = {"name": "memory_search", "arguments": arguments}
        result = await client.call("tools/call", called)  # a model knew the limit from the schema
        assert result["isError"]
        assert f"1 to {MAX_RESULTS}" in json.dumps(result)


@pytest.mark.anyio
async def test_an_entry_is_as_long_as_it_may_be(home):
    home.configure({"memory": {"append": {"enabled": True}}})
    async with home.gateway() as client:
        params = {"text": "x" * MAX_ENTRY_BYTES, "sessionKey": MAIN}
        assert (await client.call("memory_append", params))["path"]
        with pytest.raises(RemoteError, match="longer than 65536 bytes"):
            await client.call("memory_append", {"text": "x" * (MAX_ENTRY_BYTES + 1)})


@pytest.mark.anyio
async def test_a_text_that_is_read_is_as_long_as_it_may_be_and_says_where_to_go_on(home):
    line = "x" * 1023 + "\n"
    home.write("memory/at.md", line * (MAX_TEXT_BYTES // 1024))
    home.write("memory/beyond.md", line * (MAX_TEXT_BYTES // 1024) + "y\n")
    async with home.gateway() as client:
        whole = await client.call("memory_get", {"path": "memory/at.md"})
        cut = await client.call("memory_get", {"path": "memory/beyond.md"})
        params = {"path": "memory/beyond.md", "from": cut["nextFrom"]}
        rest = await client.call("memory_get", params)
    assert (len(whole["text"]), whole.get("truncated")) == (MAX_TEXT_BYTES, None)
    assert cut["truncated"]
    assert (
        cut["text"].removesuffix("\n") + "\n" + rest["text"]
        == line * (MAX_TEXT_BYTES // 1024) + "y\n"
    )


def replies(home, *lines):
    """Returns the process's answers to raw lines, by id."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", *home.arguments], env=home.environment,
        input=b"".join(line + b"\n" for line in lines), capture_output=True, timeout=WAIT_S, check=True,
    )  # fmt: skip
    answers = map(json.loads, done.stdout.splitlines())
    return {answer["id"]: answer for answer in answers}


def test_a_line_is_as_long_as_it_may_be(home):
    limit = ConnectionLimits().line_bytes
    frame = '{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":"%s"}}'
    at, beyond = (
        (frame % (number, "x" * (length - len(frame % (number, ""))))).encode()
        for number, length in ((1, limit), (2, limit + 1))
    )
    assert (len(at), len(beyond)) == (limit, limit + 1)
    answers = replies(home, at, beyond, (frame % (3, "")).encode())
    assert [("result" in answers[number]) for number in (1, 3)] == [True, True]
    assert 2 not in answers
    assert f"{limit}" in answers[None]["error"]["message"].replace(",", "")


def test_depth_ends_where_reading_it_would(home):
    def nested(number, depth):
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        method = b'{"jsonrpc":"2.0","id":%d,"method":"initialize","params":' % number
        return method + b'{"capabilities":' + deep + b"}}"

    answers = replies(home, nested(1, 200), nested(2, 500_000), nested(3, 1))
    assert "result" in answers[1] and "result" in answers[3]
    assert "nested too deeply" in answers.get(2, answers[None])["error"]["message"]
