"""The limit on how long an orderly end may take."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

_SCRIPT = """
import os, threading
import anyio
from gateway.process import serve
from gateway.process.serve import Ending
from gateway.rpc.transport import DescriptorWriter

def start(thread):
    raise RuntimeError("can't start new thread")

async def main():
    threading.Thread.start = start
    serve._SIGNAL_S = 60  # it would end with another code what a busy machine lets wait
    closing, shutdown = anyio.Event(), anyio.Event()
    closing.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Ending().limit, closing, shutdown, DescriptorWriter(os.pipe()[1]))
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()

print("begins", flush=True)
anyio.run(main)
"""


@pytest.mark.promises_seconds
def test_where_no_thread_can_be_had_the_end_comes_in_time_and_in_order():
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        started = time.perf_counter()
        assert process.wait(timeout=60) == 0
        assert time.perf_counter() - started < 3
