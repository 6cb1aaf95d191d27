"""Files that are pipes or devices: read when they deliver, named when they do not."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from config.errors import ConfigInvalidError
from config.runtime.files import SilentFileError, read_file
from config.source.environment import gather_variables
from config.source.json5 import read_json5
from providers.remote.credentials import load

LIMIT = 1024


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def delivered(pipe):
    """Makes the pipe deliver the given data, a byte at a time, to its next reader."""
    writers = []

    def deliver(data):
        def write():
            with pipe.open("wb", buffering=0) as file:
                for byte in data:
                    file.write(bytes([byte]))

        writers.append(threading.Thread(target=write))
        writers[-1].start()

    yield deliver
    for writer in writers:
        writer.join()


def test_a_regular_file_is_read_to_its_end_or_just_beyond_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2000)
    assert read_file(path, 5000) == b"x" * 2000
    assert read_file(path, LIMIT) == b"x" * (LIMIT + 1)


def test_a_pipe_that_delivers_is_read_whole(pipe, delivered):
    delivered(b"one two three")
    assert read_file(pipe, LIMIT, patience_s=60) == b"one two three"


@pytest.mark.promises_seconds
def test_a_pipe_that_nobody_writes_to_is_given_up_and_named(pipe):
    started = time.monotonic()
    with pytest.raises(SilentFileError, match=f"did not end within 0.05 s.*{pipe}"):
        read_file(pipe, LIMIT, patience_s=0.05)
    assert time.monotonic() - started < 5


def test_a_pipe_whose_writer_stops_in_the_middle_is_given_up(pipe):
    holder = os.open(pipe, os.O_RDWR)
    os.write(holder, b"half")
    try:
        with pytest.raises(SilentFileError):
            read_file(pipe, LIMIT, patience_s=0.05)
    finally:
        os.close(holder)


def test_an_endless_device_is_read_no_further_than_the_limit():
    assert len(read_file(Path("/dev/zero"), LIMIT)) == LIMIT + 1
    assert read_file(Path("/dev/null"), LIMIT) == b""


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(read_file, "__kwdefaults__", {"patience_s": 0.05})


def test_each_file_of_the_configuration_may_be_a_pipe(tmp_path, pipe, delivered):
    delivered(b"{agents: {}}")
    assert read_json5(pipe).value.keys() == {"agents"}
    pipe.rename(tmp_path / ".env")
    pipe.symlink_to(tmp_path / ".env")
    delivered(b"OPENAI_API_KEY=from-a-pipe\n")
    assert gather_variables({}, tmp_path, None).values["OPENAI_API_KEY"] == "from-a-pipe"
    delivered(b'{"profiles": {"one": {"provider": "openai", "type": "api_key", "key": "k"}}}')
    assert set(load([pipe]).profiles) == {"one"}


@pytest.mark.usefixtures("impatient")
def test_each_file_of_the_configuration_is_named_when_it_is_a_pipe_that_stays_silent(
    tmp_path, pipe
):
    with pytest.raises(
        ConfigInvalidError, match=f"{pipe}: cannot be read: it is not a regular file"
    ):
        read_json5(pipe)
    (problem,) = load([pipe]).problems
    assert problem.startswith(f"{pipe} cannot be read: it is not a regular file")
    pipe.rename(tmp_path / ".env")
    with pytest.raises(
        ConfigInvalidError, match=r"\.env: cannot be read: it is not a regular file"
    ):
        gather_variables({}, tmp_path, None)


@pytest.mark.usefixtures("impatient")
def test_a_credential_that_stays_silent_is_named(tmp_path):
    os.mkfifo(tmp_path / "OPENAI_API_KEY")
    with pytest.raises(ConfigInvalidError, match="OPENAI_API_KEY: cannot be read"):
        gather_variables({"CREDENTIALS_DIRECTORY": str(tmp_path)}, tmp_path / "state", None)
