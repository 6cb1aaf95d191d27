"""Reading a small file that somebody else makes: a configuration, a `.env`, a list of credentials.

Owns that such a file may be a pipe (password managers offer those) or something that never ends: it is
opened without waiting, waited for only so long, and read only so far. Links are followed. Blocks.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import Final

PIPE_PATIENCE_S: Final = 3.0
"""How long a pipe may take to deliver all that it holds."""
_BLOCK_BYTES: Final = 256 * 1024
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SilentFileError(TimeoutError):
    """It is no regular file, and it did not deliver in time."""


def read_file(path: Path, limit_bytes: int, *, patience_s: float = PIPE_PATIENCE_S) -> bytes:
    """All that is in the file, or one byte more than the limit where there is more.

    Raises SilentFileError, and any other OSError as it comes.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        ends = None if is_regular else time.monotonic() + patience_s
        return _read(descriptor, limit_bytes + 1, ends, path, patience_s)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, ends: float | None, path: Path, patience_s: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        # Asked before each look at a pipe: without a writer it reads as if it were empty.
        if ends is not None and not _is_ready(descriptor, ends):
            raise SilentFileError(
                errno.ETIMEDOUT,
                f"it is no regular file, and did not deliver within {patience_s:g} s",
                str(path),
            )
        try:
            block = os.read(descriptor, min(_BLOCK_BYTES, size - len(data)))
        except BlockingIOError:  # somebody else took what was there
            continue
        if not block:
            break
        data += block
    return bytes(data)


def _is_ready(descriptor: int, ends: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, ends - time.monotonic()) * 1000))
