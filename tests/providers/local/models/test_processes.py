"""Downloads by processes of their own: many at once, killed ones, and one that stalls."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.hub import model_bytes
from providers.local.models import take
from providers.local.models.cache import PATIENCE_S, place_of
from providers.local.models.references import ModelBusyError, parse_reference

WAIT_S = 60
ROOT = Path(__file__).parents[4]
REFERENCE = "hf:org/repo/m.gguf"
_KILLED_WHILE_IT_WRITES = """
import os, sys
from pathlib import Path
from config.runtime.files import replace_file

os.fsync = lambda _: os.kill(os.getpid(), 9)
replace_file(Path(sys.argv[1]), b"{")
"""


def test_ten_processes_download_once(start_download, hub, cache, data):
    hub.bytes_per_s = 1_000_000
    processes = [start_download() for _ in range(10)]
    outputs = [process.communicate(timeout=WAIT_S) for process in processes]
    path = cache / "hf/org/repo/main/m.gguf"
    assert outputs == [(f"{path}\n", "")] * 10
    hub.wait_until_sent(len(data))
    assert hub.sent() == len(data)
    assert not path.with_name("m.gguf.lock").exists()


def test_killed_ten_times_it_fetches_little_more_than_the_file(start_download, hub, cache):
    data = model_bytes(8_000_000)
    hub.files["org/repo/m.gguf"] = data
    hub.bytes_per_s = 4_000_000
    stops = sorted(random.Random(7).sample(range(len(data) // 20, len(data)), 10))
    for stop in stops:
        process = start_download()
        hub.wait_until_sent(stop)
        process.kill()
        process.wait(WAIT_S)
    process = start_download()
    assert process.communicate(timeout=WAIT_S)[1] == ""
    file = cache / "hf/org/repo/main/m.gguf"
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(data).digest()
    assert hub.sent() <= 1.2 * len(data)


@pytest.mark.anyio
async def test_a_record_that_a_killed_process_was_writing_goes_with_the_next_download(fetch, cache):
    record = cache / "hf/org/repo/main/m.gguf.json"
    record.parent.mkdir(parents=True)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_WHILE_IT_WRITES, str(record)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert [file.name for file in record.parent.iterdir()] != []
    path = await fetch()
    assert set(path.parent.iterdir()) == {path, record}


@pytest.mark.anyio
@pytest.mark.parametrize("by", ["obtain", "take"])
async def test_the_lock_of_a_process_killed_after_its_download_goes_with_the_next_use(
    fetch, cache, by
):
    place = place_of(parse_reference(REFERENCE), cache)
    path = await fetch()
    with place.lock.open("wb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert await fetch() == take(REFERENCE, cache) == path
        assert place.lock.exists()
    assert (await fetch() if by == "obtain" else take(REFERENCE, cache)) == path
    assert not place.lock.exists()


@pytest.mark.anyio
async def test_a_holder_that_stands_still_is_given_up(fetch, cache):
    place = place_of(parse_reference(REFERENCE), cache)
    place.model.parent.mkdir(parents=True)
    clock, progress = FakeClock(), []
    with place.lock.open("wb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        place.part.write_bytes(bytes(1000))
        with pytest.raises(ModelBusyError) as caught:
            await fetch(clock=clock, on_progress=lambda *state: progress.append(state))
    assert str(place.lock) in caught.value.remedy
    assert PATIENCE_S <= sum(clock.sleeps) < PATIENCE_S + 1
    assert set(progress) == {(1000, None)}
