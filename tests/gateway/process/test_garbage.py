"""The collector runs seldom, not never."""

from __future__ import annotations

import subprocess
import sys

from gateway.process.beginning import NEW_OBJECTS

SCRIPT = f"""
import gc, weakref
from gateway.process.beginning import settle_collector

class Node:
    pass

gc.disable()
settle_collector()
assert gc.isenabled()
assert gc.get_freeze_count() > 0
first = Node()
first.itself = first
gone = weakref.ref(first)
del first
kept = [[] for _ in range({2 * NEW_OBJECTS})]
print(gone() is None)
"""


def test_cycles_are_still_found_and_what_was_there_at_the_start_is_not_looked_at_again():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "True", done.stderr
