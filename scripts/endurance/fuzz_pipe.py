"""Writes fuzzed lines to a real gateway and checks everything that comes back."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from endurance.processes import resident_mib
from gateway.sample import sample_workspace

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
"""Too deep, too long, and long but within the limit; too expensive to be drawn often."""
_RARELY = 150


def make_lines(count: int) -> list[bytes]:
    """Returns `count` lines without their newlines. One in 150 is very deep or very long."""
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


LAST_ID = "fuzzing/the last one"
_CHECKPOINTS = 10
_PATIENCE_S = 120.0


class Run(NamedTuple):
    frames: int
    replies: int
    invalid: list[bytes]
    """Frames that are not valid JSON-RPC."""
    answered_at_the_end: bool
    resident_mb: list[float]
    """The resident memory after each tenth of the lines was written."""
    exit_code: int


def fuzz(command: Sequence[str], environment: Mapping[str, str], lines: Sequence[bytes]) -> Run:
    """Runs a gateway on these lines. The run ends with its input."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    resident: list[float] = []
    answered = threading.Event()
    writer = threading.Thread(target=_write, args=(process, lines, resident, answered), daemon=True)
    writer.start()
    assert process.stdout is not None
    frames = []
    with process.stdout as pipe:
        for frame in pipe:
            frames.append(frame)
            if LAST_ID.encode() in frame:
                answered.set()
    answered.set()
    writer.join()
    replies = [reply for frame in frames for reply in _replies(frame)]
    return Run(
        frames=len(frames),
        replies=len(replies),
        invalid=[frame for frame in frames if not is_valid(frame)],
        answered_at_the_end=any(
            reply.get("id") == LAST_ID and "result" in reply for reply in replies
        ),
        resident_mb=resident,
        exit_code=process.wait(),
    )


def is_valid(frame: bytes) -> bool:
    """Returns whether a line is a reply, a notification, or a batch of replies, and nothing else."""
    if not frame.endswith(b"\n"):
        return False
    try:
        message = json.loads(frame.decode())
    except ValueError:
        return False
    members = message if isinstance(message, list) else [message]
    return bool(members) and all(map(_is_member, members))


def _is_member(message: Any) -> bool:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return False
    if "method" in message:
        return set(message) == {"jsonrpc", "method", "params"}
    if set(message) == {"jsonrpc", "id", "error"}:
        error = message["error"]
        return isinstance(error["code"], int) and bool(error["data"]["kind"])
    return set(message) == {"jsonrpc", "id", "result"}


def _replies(frame: bytes) -> list[dict[str, Any]]:
    if not is_valid(frame):
        return []
    message = json.loads(frame)
    members = message if isinstance(message, list) else [message]
    return [member for member in members if "id" in member]


def _write(
    process: subprocess.Popen[bytes],
    lines: Sequence[bytes],
    resident: list[float],
    answered: threading.Event,
) -> None:
    """Writes the lines; ends the input after the last answer, since then open requests have only one more second."""
    assert process.stdin is not None
    last = {"jsonrpc": "2.0", "id": LAST_ID, "method": "health"}
    with process.stdin as pipe:
        for number, line in enumerate(lines, 1):
            pipe.write(line + b"\n")
            if number % max(1, len(lines) // _CHECKPOINTS) == 0:
                pipe.flush()
                resident.append(resident_mib(process.pid))
        pipe.write(json.dumps(last).encode() + b"\n")
        pipe.flush()
        answered.wait(_PATIENCE_S)


def main(arguments: Sequence[str]) -> int:
    """Writes fuzzed lines to a gateway and checks what comes back."""
    parser = argparse.ArgumentParser(prog="./scripts/fuzz pipe", description=main.__doc__)
    parser.add_argument("--lines", type=int, default=10_000)
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    lines = make_lines(options.lines)
    drawn = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="memory-gateway-fuzz-") as state:
        command = [sys.executable, "-m", "gateway", "serve", "--state-dir", state]
        command += ["--workspace", str(sample_workspace()), "--log-level", "error"]
        run = fuzz(command, {"PATH": os.environ["PATH"], "HOME": state}, lines)
    print(f"lines drawn      {len(lines):>9,}   {drawn - started:.1f} s")
    print(f"megabytes        {sum(map(len, lines)) / 1e6:>9.1f}")
    print(f"frames           {run.frames:>9,}   {time.perf_counter() - drawn:.1f} s")
    print(f"replies          {run.replies:>9,}")
    print(f"invalid frames   {len(run.invalid):>9,}")
    print(f"answers at end   {'yes' if run.answered_at_the_end else 'NO':>9}")
    print(f"exit code        {run.exit_code:>9}")
    print("resident MB by tenths: " + " ".join(f"{value:.0f}" for value in run.resident_mb))
    for frame in run.invalid[:5]:
        print(f"  {frame[:200]!r}")
    return int(bool(run.invalid) or not run.answered_at_the_end or run.exit_code != 0)
