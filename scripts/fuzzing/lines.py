"""Lines that a client should never send, and some that it should: the input of the fuzzing run.

Owns the strategies. The lines are the same in every run.
"""

from __future__ import annotations

import json
from itertools import cycle, islice
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

METHODS = st.sampled_from(
    "initialize memory_search memory_get status health metrics sync ping tools/list tools/call "
    "server/discover notifications/initialized notifications/cancelled $/cancelRequest nothing".split()
)
IDS = st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.none() | st.booleans()
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=8,
)
WORDS = st.text(max_size=60) | st.sampled_from(
    [
        "boiler",
        "MEMORY.md",
        "../../etc/passwd",
        '"',
        "NEAR(a b)",
        "\x00",
        "2026-02-01",
        "😀",
        "many words " * 40,
    ]
)
META = st.fixed_dictionaries(
    {},
    optional={
        "progressToken": IDS,
        "io.modelcontextprotocol/protocolVersion": st.sampled_from(["2026-07-28", "1900-01-01", 7]),
        "io.modelcontextprotocol/clientCapabilities": st.just({}) | VALUES,
    },
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "query": WORDS,
        "path": WORDS,
        "from": st.integers(-2, 9),
        "maxResults": st.integers(-1, 500),
        "wait": st.just(False),
    },
)
PARAMS = (
    ARGUMENTS
    | VALUES
    | st.fixed_dictionaries(
        {"name": st.sampled_from(["memory_search", "memory_get", "nothing"])},
        optional={"arguments": ARGUMENTS, "_meta": META},
    )
    | st.fixed_dictionaries({"_meta": META})
)
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": METHODS}, optional={"id": IDS, "params": PARAMS}
)
ODD = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
    VALUES | st.sampled_from(["2.0", "ping"]),
)
MESSAGES = (CALLS | ODD | st.lists(CALLS | ODD | VALUES, max_size=5)).map(
    lambda message: json.dumps(message).encode()
)
FRAGMENTS = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\ud800", b"\xff", b"\x00", b"1e999", b"NaN", b"\r",
         b'"jsonrpc":"2.0"', b'"id":1', b'"method":"ping"']
    )
    | st.binary(max_size=8),
    max_size=30,
).map(b"".join)  # fmt: skip
CUT = st.tuples(MESSAGES, st.integers(0, 200)).map(lambda cut: cut[0][: -cut[1] or None])
USUAL = MESSAGES | FRAGMENTS | CUT | st.binary(max_size=200)
RARE = (b"[" * 10_000 + b"]" * 10_000, b"x" * (5 << 20), b'{"id":"' + b"y" * (3 << 20))
"""Too deep, too long, and long but within the limit; too dear to be drawn often."""
_RARELY = 150


def make_lines(count: int) -> list[bytes]:
    """So many lines, without their newlines. One in 150 is very deep or very long."""
    drawn: list[bytes] = []

    @seed(2026)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(USUAL)
    def draw(line: bytes) -> None:
        drawn.append(line)

    draw()
    lines = list(islice(cycle(drawn), count))
    for place, line in zip(range(_RARELY // 2, count, _RARELY), cycle(RARE)):
        lines[place] = line
    return lines
