"""Fuzzed lines into the real process. `./scripts/fuzz pipe` is the long run of the same."""

from __future__ import annotations

import sys

from endurance.fuzz_pipe import fuzz, is_valid, make_lines

LINES = 600


def test_only_valid_frames_come_out_and_the_process_lives(home):
    command = [sys.executable, "-m", "gateway", "serve", *home.arguments, "--log-level", "error"]
    run = fuzz(command, home.environment, make_lines(LINES))
    assert run.invalid == []
    assert run.answered_at_the_end
    assert run.exit_code == 0
    assert run.replies > LINES / 2
    warm, last = run.resident_mb[len(run.resident_mb) // 2], run.resident_mb[-1]
    assert last - warm < 40, run.resident_mb


def test_a_bad_frame_is_recognised():
    good = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert is_valid(good + b"\n") and is_valid(b"[" + good + b"]\n")
    for bad in (good, b"[]\n", b"log line\n", b'{"jsonrpc":"2.0","id":1}\n', b"\xff\n"):
        assert not is_valid(bad)
