"""The bound on malloc's arenas, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.process.beginning import MOST_ARENAS

PROGRAM = """
import threading
from fakes.arenas import arenas_of
from gateway.process.beginning import limit_arenas

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


def arenas(**environment):
    """Returns the number of arenas with eight threads at work."""
    tests = Path(__file__).parents[2]
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    inherited = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**inherited, "PYTHONPATH": paths, **environment},
        capture_output=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    return int(done.stdout)


def test_eight_threads_share_a_few_arenas():
    assert arenas() <= MOST_ARENAS


@pytest.mark.skipif(
    sys.platform != "linux" or not os.confstr("CS_GNU_LIBC_VERSION"),
    reason="it is glibc's variable",
)
def test_who_set_the_variable_decides():
    assert MOST_ARENAS < arenas(MALLOC_ARENA_MAX="6") <= 6
