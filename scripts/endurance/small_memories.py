"""`gateway serve` with memories that are a part of their size: all are soon full, so what grows later leaks."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

from config.runtime.remembered import Remembered
from gateway import recalled


def divide_memories(divisor: int) -> None:
    """Makes each memory of this process, from now on, forget at a `divisor`-th of its bytes."""
    recalled.MOST_LINES //= divisor  # type: ignore[misc]
    recalled.MOST_LINES_EACH //= divisor  # type: ignore[misc]
    begin = Remembered.__init__

    def begin_small(self: Any, most_bytes: int, size: Callable[..., int]) -> None:
        begin(self, most_bytes // divisor, size)

    Remembered.__init__ = begin_small  # type: ignore[method-assign]


if __name__ == "__main__":
    divide_memories(int(sys.argv.pop(1)))
    runpy.run_module("gateway", run_name="__main__", alter_sys=True)
