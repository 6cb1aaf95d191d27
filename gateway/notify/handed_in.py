"""Listening sockets that a service manager made and hands in (socket activation, sd_listen_fds(3))."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

FIRST_DESCRIPTOR: Final = 3


def handed_in_sockets(environment: Mapping[str, str] = os.environ) -> tuple[socket.socket, ...]:
    """Those meant for this process. Call it first thing, before anything opens a descriptor.

    What is no listening stream socket of this machine is left alone, and logged.
    """
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal():
        return ()
    descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
    return tuple(made for descriptor in descriptors if (made := _adopt(descriptor)) is not None)


def _adopt(descriptor: int) -> socket.socket | None:
    try:
        os.set_inheritable(descriptor, False)
        made = socket.socket(fileno=descriptor)
    except OSError as error:
        _log.warning("a descriptor that was handed in is no socket", error=str(error))
        return None
    listens = made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if made.family == socket.AF_UNIX and made.type == socket.SOCK_STREAM and listens:
        return made
    _log.warning("a socket that was handed in is no listening Unix socket", fd=descriptor)
    made.detach()
    return None
