"""A process that can open only a few more files."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Limits this process to `count` further descriptors while the body runs."""
    gc.collect()  # or it might free some meanwhile
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count + 8, hard))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
