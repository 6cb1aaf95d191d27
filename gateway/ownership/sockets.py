"""Unix sockets by their path: making one to listen on, and reaching the owner through its own.

Owns permissions and the length of addresses. A socket address holds about a hundred bytes; a longer
path is reached through a descriptor of its directory.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import structlog
from anyio.abc import SocketStream

from gateway.ownership.lock import read_owner
from gateway.ownership.places import make_private

_log = structlog.get_logger(__name__)

_LONGEST_ADDRESS: Final = 100
_BACKLOG: Final = 1024
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.25


class Listening(NamedTuple):
    socket: socket.socket
    path: Path


def listen(path: Path) -> socket.socket:
    """Listens at the path, for this user only, in place of what a dead owner left there.

    Call it with the lock held. Raises OSError.
    """
    make_private(path.parent)
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            made.bind(address)
        path.chmod(0o600)
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def listen_somewhere(paths: Iterable[Path]) -> Listening | None:
    """Listens at the first of these places that can be used; None when none can."""
    for path in paths:
        try:
            return Listening(listen(path), path)
        except OSError as error:
            _log.warning("no socket here", path=str(path), error=str(error))
    return None


async def connect(path: Path) -> SocketStream:
    """Raises OSError when nobody listens there."""
    with _address(path) as address:
        return await anyio.connect_unix(address)


async def connect_owner(lock: Path) -> SocketStream | None:
    """A connection to the process that owns the index of this lock; None when none can be reached."""
    record = read_owner(lock)
    if record is None or record.socket is None:
        return None
    try:
        return await connect(Path(record.socket))
    except OSError:
        return None


async def reach_owner(lock: Path) -> SocketStream:
    """Waits until there is an owner that can be reached."""
    pause_s = _FIRST_PAUSE_S
    while (stream := await connect_owner(lock)) is None:
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return stream


@contextmanager
def _address(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
