"""A real gateway whose standard error blocks: it answers, it ends in order, and it counts the records that it lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import pytest

PATIENCE_S = 120
REQUESTS = 1_500
"""The requests: at `debug` each has a record, and together these exceed what a pipe holds and what may wait."""


def full_pipe() -> tuple[int, list[int]]:
    """Returns the writing end of a full pipe, and the reading end, which must stay open and is never read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    return writer, [reader]


def reader_gone() -> tuple[int, list[int]]:
    reader, writer = os.pipe()
    os.close(reader)
    return writer, []


def full_device() -> tuple[int, list[int]]:
    return os.open("/dev/full", os.O_WRONLY), []


def closed() -> tuple[int, list[int]]:
    return os.open(os.devnull, os.O_WRONLY), []


KINDS = {
    "a pipe that nobody reads": full_pipe,
    "a pipe whose reader has gone": reader_gone,
    "a full disk": full_device,
    "closed at the start": closed,
}


@pytest.fixture(params=KINDS)
def standard_error(request) -> Iterator[tuple[int, bool]]:
    """A descriptor that takes nothing, and whether it is closed before the command begins."""
    make = KINDS[request.param]
    writer, kept = make()
    yield writer, make is closed
    for descriptor in (writer, *kept):
        os.close(descriptor)


def command(home, standard_error, *arguments: str) -> list[str]:
    words = [sys.executable, "-m", "gateway", *arguments, *home.arguments]
    return ["sh", "-c", 'exec "$0" "$@" 2>&-', *words] if standard_error[1] else words


@contextmanager
def gateway(home, standard_error, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command(home, standard_error, "serve", "--log-level", "debug", *arguments),
        env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=standard_error[0],
    )  # fmt: skip
    bound = threading.Timer(PATIENCE_S, process.kill)
    bound.start()
    try:
        with process:
            yield process
    finally:
        bound.cancel()
        process.kill()


def ask(process: subprocess.Popen[bytes], *calls: tuple[str, object]) -> list[Any]:
    """Returns the results of these calls, each sent when the one before was answered."""
    pipe: IO[bytes] = process.stdin  # type: ignore[assignment]
    said: IO[bytes] = process.stdout  # type: ignore[assignment]
    answers = []
    for method, params in calls:
        pipe.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        )
        pipe.write(b"\n")
        pipe.flush()
        line = said.readline()
        assert line, "it ended, or it had to be ended, before it answered"
        answers.append(json.loads(line)["result"])
    return answers


def test_all_is_answered_what_was_not_logged_is_counted_and_the_end_of_input_ends_it(
    home, standard_error
):
    with gateway(home, standard_error) as process:
        ask(process, *[("ping", {})] * REQUESTS)
        others = (("memory_search", {"query": "boiler"}), ("status", {}), ("health", {}))
        found, status, health = ask(process, *others)
        assert found["results"][0]["path"] == "MEMORY.md"
        assert status["activity"]["droppedLogLines"] > REQUESTS / 4
        assert "status" in health
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_signal_ends_it_and_whoever_comes_meanwhile_is_answered(home, standard_error):
    with gateway(home, standard_error) as owner:
        ask(owner, *[("ping", {})] * REQUESTS)
        done = home.run("search", "--json", "boiler")
        assert (done.returncode, json.loads(done.stdout)["results"][0]["path"]) == (0, "MEMORY.md")
        with gateway(home, standard_error) as second:
            (found,) = ask(second, ("memory_search", {"query": "boiler"}))
            assert found["results"][0]["path"] == "MEMORY.md"
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(PATIENCE_S) == 0


def test_commands_do_their_work_whatever_becomes_of_what_they_say_beside(home, standard_error):
    """A mistake that cannot be reported still has its exit code."""
    for code, words in (
        (0, ("search", "boiler")),
        (0, ("index", "--log-level", "debug")),
        (os.EX_USAGE, ("search", "--max-results", "none", "boiler")),
    ):
        done = subprocess.run(
            command(home, standard_error, *words), env=home.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=standard_error[0], timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == code
        assert bool(done.stdout) == (code == 0)


def test_logging_goes_on_where_there_is_room_again(home):
    writer, (reader,) = full_pipe()
    with gateway(home, (writer, False)) as process:
        ask(process, *[("ping", {})] * REQUESTS)
        os.close(writer)
        drained = b""
        with os.fdopen(reader, "rb") as log:
            ask(process, ("status", {}))
            process.stdin.close()
            drained = log.read()
        assert process.wait(PATIENCE_S) == 0
    records = [json.loads(line) for line in drained.lstrip(b"x").splitlines()]
    assert records[-1]["event"] == "ended"


def test_at_info_a_client_that_asks_and_asks_fills_no_log(home):
    with gateway(home, (subprocess.PIPE, False), "--log-level", "info") as process:
        ask(process, *[("memory_search", {"query": "boiler"})] * 30)
        process.stdin.close()
        log = process.stderr.read()
        assert process.wait(PATIENCE_S) == 0
    assert b'"request"' not in log
    assert len(log) < 4096
