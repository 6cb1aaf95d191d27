"""The bound on malloc's arenas, and the memory that is given back, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.process.serve import MOST_ARENAS

THREADS = """
import threading
from fakes.arenas import arenas_of
from gateway.process.serve import limit_arenas

limit_arenas()
everybody = threading.Barrier(9)
kept = []

def allocate():
    kept.append(bytearray(4096))
    everybody.wait()
    everybody.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
everybody.wait()
print(arenas_of("self"))
everybody.wait()
"""


FREED = """
import anyio
from pathlib import Path
from gateway.process.serve import give_back_regularly

def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])

async def main():
    before = resident_pages()
    blocks = [bytearray(4096) for _ in range(10_000)]
    kept = blocks[999::1000]
    blocks.clear()
    most = before + len(kept) * 100
    assert resident_pages() > most
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(give_back_regularly, 0.01)
        with anyio.fail_after(30):
            while resident_pages() > most:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    print(len(kept))  # which stay until here

anyio.run(main)
"""


def run(program, **environment):
    """Returns the number that a process with this program prints."""
    tests = Path(__file__).parents[2]
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    inherited = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**inherited, "PYTHONPATH": paths, **environment},
        capture_output=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    return int(done.stdout)


of_glibc = pytest.mark.skipif(
    sys.platform != "linux" or not os.confstr("CS_GNU_LIBC_VERSION"), reason="it is of glibc"
)


def test_eight_threads_share_a_few_arenas():
    assert run(THREADS) <= MOST_ARENAS


@of_glibc
def test_who_set_the_variable_decides():
    assert MOST_ARENAS < run(THREADS, MALLOC_ARENA_MAX="6") <= 6


@of_glibc
def test_what_lies_free_below_a_block_that_stays_is_given_back():
    assert run(FREED) == 10
