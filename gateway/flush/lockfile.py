"""A lock that is a file: made exclusively, removed when done, as chat gateways lock their session store.

Owns waiting for it and recognising one that its owner left behind. Blocking: for worker threads.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.02
_STALE_S: Final = 30.0
"""Nobody holds it longer: it guards one read and one write of a small file."""


class LockTimeoutError(Exception):
    """Somebody else held the lock all the time."""


@contextmanager
def lock_file(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Holds the lock in the body. Raises `LockTimeoutError` and, as they come, `OSError`s."""
    ends = time.monotonic() + timeout_s
    while not _take(path):
        _clear_stale(path)
        if time.monotonic() >= ends:
            raise LockTimeoutError(str(path))
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _take(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "startedAt": int(time.time() * 1000)}, file)
    return True


def _clear_stale(path: Path) -> None:
    """By age only: the process that made it may run in another container."""
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > _STALE_S:
            path.unlink()
