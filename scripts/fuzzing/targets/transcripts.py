"""A transcript: any bytes as its file, read whole, read in two steps, rendered, redacted."""

from __future__ import annotations

import os
from functools import cache

from backends.redaction import redact
from backends.transcripts.stretches import digest_of, read_stretch
from backends.transcripts.turns import render_turn
from fuzzing.places import place


def run(data: bytes) -> None:
    descriptor = _file()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
    whole = read_stretch(descriptor, 0, len(data) + 1)
    assert len(whole.lines) == data.count(b"\n")
    assert whole.end == data.rfind(b"\n") + 1
    assert whole.digest == digest_of(descriptor, 0, whole.end)
    first = read_stretch(descriptor, 0, len(data) // 2)
    rest = read_stretch(descriptor, first.end, len(data) + 1)
    assert first.lines + rest.lines == whole.lines
    for line in whole.lines:
        _check_turn(line or b"")
    text = data.decode(errors="replace")
    assert redact(redact(text)) == redact(text)


def _check_turn(line: bytes) -> None:
    turn = render_turn(line)
    if turn is None:
        return
    assert turn.startswith(("User: ", "Assistant: "))
    assert not {"\n", "\r", "\0"} & set(turn)
    turn.encode()


@cache
def _file() -> int:
    return os.open(place("transcripts") / "session.jsonl", os.O_CREAT | os.O_RDWR)
