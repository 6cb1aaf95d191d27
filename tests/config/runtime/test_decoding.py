"""A type that several threads meet for the first time at once."""

from __future__ import annotations

import subprocess
import sys

RACE = '''
import sys, threading
from types import ModuleType

import msgspec

from config.runtime.decoding import prepared

CLASSES = """
from __future__ import annotations
import msgspec
from typing import Literal

class Inner(msgspec.Struct):
    kind: Literal["one", "other"] = "one"
    number: int | None = None

class Outer(msgspec.Struct):
    inner: Inner | None = None
    kind: Literal["one", "other"] = "one"
    more: list[Inner] = []
    number: int | None = None
"""

def decode(kind, barrier):
    barrier.wait()
    msgspec.json.decode(b'{"number": 3, "more": []}', type=prepared(kind))

sys.setswitchinterval(1e-6)
for number in range(400):
    module = sys.modules[f"m{number}"] = ModuleType(f"m{number}")
    exec(CLASSES, vars(module))
    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=decode, args=(module.Outer, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("survived")
'''


def test_threads_that_decode_into_a_new_type_at_once_do_not_end_the_process():
    ended = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.stdout, ended.stderr) == ("survived\n", "")
