"""A gateway that hooks start where none runs: it stays while it is asked, and ends by itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from config.host_keys import is_disabled
from config.settings import Settings
from gateway.hook import Route, connect
from gateway.ownership.lock import check_workspace, place_of, read_owner
from gateway.process.serve import serve

IDLE_S: Final = 1_800.0


def stay(
    settings: Settings,
    route: Route,
    *,
    read_settings: Callable[[], Settings],
    log_level: str = "warning",
    idle_s: float = IDLE_S,
) -> int:
    """Notes where the owner of the index answers, and becomes the owner where there is none; the exit code.

    Raises IndexUnavailableError where it serves another workspace.
    """
    config = str(settings.config_path) if settings.config_path else None
    write = partial(route.write, config)
    if is_disabled(settings):
        write("")
        return os.EX_OK
    place = place_of(settings)
    owner = read_owner(place.lock)
    if owner is not None and owner.socket and _answers(owner.socket):
        check_workspace(place.lock, settings.workspace)
        write(owner.socket)
        return os.EX_OK
    write(str(place.sockets[0]))
    os.chdir("/")  # a client's folder may be unmounted meanwhile
    return serve(
        settings, read_settings=read_settings, log_level=log_level, socket_only=True, idle_s=idle_s
    )


def _answers(socket: str) -> bool:
    connection = connect(socket)
    if connection is not None:
        connection.close()
    return connection is not None
