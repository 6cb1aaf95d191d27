"""Writes fuzzed lines to a real gateway and judges everything that comes back.

Owns the run: one thread writes, one reads; every frame is checked, the memory of the process is measured
on the way, and at the end it must still answer.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LAST_ID = "fuzzing/the last one"
_CHECKPOINTS = 10
_PATIENCE_S = 120.0


class Run(NamedTuple):
    frames: int
    replies: int
    invalid: list[bytes]
    """Frames that are no JSON-RPC."""
    answered_at_the_end: bool
    resident_mb: list[float]
    """After each tenth of the lines was answered, about."""
    exit_code: int


def fuzz(command: Sequence[str], environment: Mapping[str, str], lines: Sequence[bytes]) -> Run:
    """Runs a gateway on these lines. Its end of input is the end of the run."""
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
    """Whether a line is a reply, a notification, or a batch of replies, and nothing besides."""
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
    """The end of the input waits for the last answer: after it there is a second for all that is open."""
    assert process.stdin is not None
    last = {"jsonrpc": "2.0", "id": LAST_ID, "method": "health"}
    with process.stdin as pipe:
        for number, line in enumerate(lines, 1):
            pipe.write(line + b"\n")
            if number % max(1, len(lines) // _CHECKPOINTS) == 0:
                pipe.flush()
                resident.append(_resident_mb(process.pid))
        pipe.write(json.dumps(last).encode() + b"\n")
        pipe.flush()
        answered.wait(_PATIENCE_S)


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(
        int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")
    )
