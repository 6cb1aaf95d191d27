"""Whatever arrives, only valid frames leave, one for each request, and the connection stays usable."""

from __future__ import annotations

import json
from collections import Counter

import anyio
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.each import each

SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

IDS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
METHODS = st.sampled_from(
    ["echo", "note", "count", "crash", "orphan", "hurried", "nothing", "$/cancelRequest"]
)
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": METHODS},
    optional={
        "id": IDS,
        "params": st.fixed_dictionaries(
            {}, optional={"text": st.text(), "steps": st.integers(0, 3)}
        )
        | VALUES,
    },
)
ODD_CALLS = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
    VALUES | st.sampled_from(["2.0", "echo"]),
)
MESSAGES = CALLS | ODD_CALLS | st.lists(CALLS | ODD_CALLS | VALUES, max_size=4) | VALUES
FRAGMENTS = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\ud800", b"id", b"null"])
    | st.sampled_from(
        [b'"jsonrpc":"2.0"', b'"id":1', b'"method":"echo"', b"\xff", b"\x00", b"1e999"]
    )
    | st.binary(max_size=5)
).map(b"".join)


def line_of(message: object) -> bytes:
    """Encode without newlines, with lone surrogates as escapes."""
    return json.dumps(message).encode()


def answered_ids(message: object, *, is_call: bool = True) -> Counter[str]:
    """Count the answers that a message must get, by the JSON of their id; else those that it may get."""
    if isinstance(message, list) and message:
        members = (answered_ids(member, is_call=is_call) for member in message if member != [])
        return sum(members, Counter())
    if not isinstance(message, dict) or ("method" in message) != is_call:
        return Counter()
    request_id = message.get("id")
    is_valid = isinstance(request_id, int | float | str) and not isinstance(request_id, bool)
    return Counter([json.dumps(request_id)]) if is_valid else Counter()


async def converse(connect, lines: list[bytes]) -> list[dict]:
    """Send the lines, prove that the connection still works, and return all replies."""
    async with connect(line_bytes=2000, grace_s=5) as client:
        for line in lines:
            client.send_bytes(line + b"\n")
        client.request("the last one", "echo")
        client.end_input()
        frames = await client.all_frames()
    flat = [reply for frame in frames for reply in (frame if isinstance(frame, list) else [frame])]
    assert "result" in next(reply for reply in flat if reply.get("id") == "the last one")
    return flat


def check_reply(reply: dict) -> None:
    assert reply["jsonrpc"] == "2.0"
    if "method" in reply:
        assert set(reply) == {"jsonrpc", "method", "params"}
    else:
        assert set(reply) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in reply:
        assert isinstance(reply["error"]["code"], int)
        assert reply["error"]["data"]["kind"]


@SETTINGS
@given(st.lists(st.binary(max_size=300) | FRAGMENTS, max_size=20))
def test_arbitrary_bytes_give_only_valid_replies(connect, lines):
    for reply in anyio.run(converse, connect, lines):
        check_reply(reply)


@SETTINGS
@given(st.lists(MESSAGES, max_size=10))
def test_every_request_with_an_id_is_answered_exactly_once(connect, messages):
    sent = sum((answered_ids(message) for message in messages), Counter())
    odd = sum((answered_ids(message, is_call=False) for message in messages), Counter())
    replies = anyio.run(converse, connect, [line_of(message) for message in messages])
    for reply in replies:
        check_reply(reply)
    got = Counter(json.dumps(reply["id"]) for reply in replies if reply.get("id") is not None)
    got.subtract({'"the last one"': 1})
    for request_id, count in sent.items():
        assert count <= got[request_id] <= count + odd[request_id]


@each("where", ["line", "params", "id", "batch", "cancel"])
@each("depth", [*range(860, 1000, 7), 10_000])
def test_no_depth_of_nesting_breaks_the_connection(connect, where, depth):
    deep = b"[" * depth + b"]" * depth
    line = {
        "line": deep,
        "params": b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":%b}}' % deep,
        "id": b'{"jsonrpc":"2.0","id":%b,"method":"echo"}' % deep,
        "batch": b'[{"jsonrpc":"2.0","id":1,"method":"echo","params":%b}]' % deep,
        "cancel": b'{"jsonrpc":"2.0","id":1,"method":"$/cancelRequest","params":{"x":%b}}' % deep,
    }[where]

    async def talk() -> None:
        async with connect() as client:
            client.send_bytes(line + b"\n")
            assert "error" in msgspec.json.encode(await client.receive()).decode()
            assert "result" in await client.call("after", "echo")

    anyio.run(talk)
