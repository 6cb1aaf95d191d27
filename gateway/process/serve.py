"""The long-running process: one agent's memory behind the stdio pipe and a socket.

The pipe is claimed before anything else. Signals, the end of the input and the end of the parent process end this one,
with exit code 0 for every orderly end, within a limit whatever hangs. What it serves is in `ownership.host`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from config.host_keys import is_disabled
from config.paths import CONFIG_NAMES, home_dir, own_file
from config.runtime import IS_LINUX
from config.runtime.logs import Log
from config.runtime.standard_error import claim_standard_error
from config.runtime.tasks import BoundedWork, background_tasks
from config.settings import Settings
from gateway.hook import Route, connect
from gateway.notify import Notifier
from gateway.ownership.host import Host, Pipe
from gateway.ownership.owner import check_workspace, place_of, read_owner
from gateway.process.beginning import (
    OUTSIDE,
    PARENT,
    is_orphan,
    load_codecs,
    run_loop,
    settle_collector,
    share_interpreter,
)
from gateway.process.log_output import configure_logs
from gateway.rpc.transport import (
    DescriptorReader,
    DescriptorWriter,
    ProtocolDescriptors,
    claim_stdio,
)

_log = Log()

STAYING_IDLE_S: Final = 1_800.0
"""The time without a client after which a gateway ends that a hook started."""


def serve(
    settings: Settings,
    *,
    read_settings: Callable[[], Settings],
    log_level: str = "info",
    socket_only: bool = False,
    sockets: Sequence[socket.socket] = (),
    notifier: Notifier | None = None,
    idle_s: float | None = None,
) -> int:
    """Serves until the input ends, the parent is gone or a signal comes; returns the exit code.

    `read_settings` gives the settings of the same agent again, for a reload. With `socket_only` it is
    a service: nobody is at its pipe, and its parent does not matter. `sockets` are listening ones that
    were handed in, beside the one that the owner of an index makes for itself. The `notifier` reports the
    state to a service manager. With `idle_s` it ends when no client was there for so long.
    Raises IndexUnavailableError when the index cannot be opened at all.
    """
    notifier = notifier or Notifier()
    claimed = _claim_process(settings, log_level)
    make_host = partial(
        Host,
        settings,
        read_settings=read_settings,
        sockets=sockets,
        notifier=notifier,
        idle_s=idle_s,
    )
    ending = Ending()
    try:
        run_loop(_run, make_host, claimed, notifier, ending, socket_only)
    finally:
        ending.call_off()
    _log.info("ended", agent=settings.agent_id)
    return 0


def _claim_process(settings: Settings, log_level: str) -> ProtocolDescriptors:
    """Claims the pipe, sets up the log, and tunes memory and interpreter."""
    limit_arenas()
    claimed = claim_stdio()
    sys.stdout = claim_standard_error()  # as its descriptor, for whatever prints
    configure_logs(log_level)
    load_codecs()
    settle_collector()
    share_interpreter()
    for warning in settings.warnings:
        _log.warning("configuration", path=warning.path, line=warning.line, message=warning.message)
    return claimed


async def _run(
    make_host: Callable[..., Host],
    claimed: ProtocolDescriptors,
    notifier: Notifier,
    ending: Ending,
    socket_only: bool,
) -> None:
    """Runs until the host ends, with the tasks that watch beside it."""
    writer = DescriptorWriter(claimed.output)
    process = PARENT if PARENT != OUTSIDE else None
    pipe = Pipe(DescriptorReader(claimed.input), writer, process)
    shutdown = anyio.Event()
    host = make_host(pipe=None if socket_only else pipe, shutdown=shutdown)
    async with background_tasks() as tasks:
        tasks.start_soon(_receive_signals, shutdown, host, tasks)
        tasks.start_soon(ending.limit, host.closing, shutdown, writer)
        tasks.start_soon(notifier.keep_alive)
        tasks.start_soon(give_back_regularly)
        if not socket_only:
            tasks.start_soon(end_with_parent, PARENT, shutdown)
        await host.run()


async def _receive_signals(shutdown: anyio.Event, host: Host, tasks: TaskGroup) -> None:
    """Ends the process in order at SIGTERM and SIGINT, of which a second one changes nothing; reloads at SIGHUP."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP:
                tasks.start_soon(host.reload)
            else:
                _log.info("stopping", signal=signal.Signals(number).name)
                shutdown.set()


END_S: Final = 1.2
"""The time from the end of the input, or a signal, to the end of the process: 2 s are promised on a busy machine."""
READING_S: Final = 0.6
"""The longest pause of a client that still reads its last answers, and the time to clean up after it."""
_LOOK_S: Final = 0.1
_SIGNAL_S: Final = 0.3
"""The delay of the signal: on a busy machine the thread, which ends the process with code 0, may have to wait."""


class Ending:
    """Ends the process with code 0 when its end takes too long, unless it is called off."""

    def __init__(self) -> None:
        self._deadline = 0.0
        self._off = threading.Event()
        self._has_thread = False

    async def limit(
        self, closing: anyio.Event, shutdown: anyio.Event, writer: DescriptorWriter
    ) -> None:
        """Works until cancelled. Once `closing` is set the process ends within `END_S`.

        Only a client that still reads what it asked for, after the end of its input, may read to the end.
        """
        await closing.wait()
        self._not_before(END_S)
        self._start_thread()
        sent, warned = writer.sent, False
        while True:
            await anyio.sleep(_LOOK_S)
            if writer.sent != sent and not shutdown.is_set():
                self._not_before(READING_S)
            sent = writer.sent
            if self._left_s() < 2 * _LOOK_S and not warned:
                warned, me = True, threading.current_thread().name
                names = sorted({one.name for one in threading.enumerate()} - {me})
                _log.warning("ending without waiting for work that hangs", threads=names)
            if not self._has_thread:
                self._start_thread()
            if not self._has_thread and self._left_s() <= 0:
                os._exit(os.EX_OK)

    def call_off(self) -> None:
        self._off.set()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _start_thread(self) -> None:
        """Starts a thread, since the event loop may hang as well; if none can be started, `limit` tries again."""
        with suppress(RuntimeError):
            threading.Thread(target=self._wait, name="last resort", daemon=True).start()
            self._has_thread = True

    def _not_before(self, seconds: float) -> None:
        self._deadline = max(self._deadline, time.monotonic() + seconds)
        # A library that hangs may block the interpreter, and with it every thread: a signal that nobody
        # handles needs neither.
        signal.setitimer(signal.ITIMER_REAL, self._left_s() + _SIGNAL_S)

    def _wait(self) -> None:
        while (left_s := self._left_s()) > 0:
            if self._off.wait(left_s):
                return
        os._exit(os.EX_OK)

    def _left_s(self) -> float:
        return self._deadline - time.monotonic()


_POLL_S: Final = 0.5


async def end_with_parent(parent: int, shutdown: anyio.Event) -> None:
    """Sets `shutdown` once `parent`, as `os.getppid()` gave it first, is gone."""
    if parent == OUTSIDE:
        return
    if not is_orphan(parent):
        await _outlive(parent)
    _log.info("stopping", cause="the process that started this one is gone")
    shutdown.set()


async def _outlive(parent: int) -> None:
    if IS_LINUX:
        with suppress(OSError):  # an older kernel
            descriptor = os.pidfd_open(parent)
            try:
                if os.getppid() == parent:
                    await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
            return
    while os.getppid() == parent:  # noqa: ASYNC110 - another process sets no event
        await anyio.sleep(_POLL_S)


def stay(
    settings: Settings,
    route: Route,
    *,
    read_settings: Callable[[], Settings],
    log_level: str = "warning",
    idle_s: float = STAYING_IDLE_S,
) -> int:
    """Serves as `serve` does, for hooks: notes where the owner answers, and becomes the owner where there is none.

    Raises IndexUnavailableError where the owner serves another workspace.
    """
    write = partial(route.write, _files_that_say_which(settings))
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


def _files_that_say_which(settings: Settings) -> list[str]:
    """Returns the configuration that is read, and the file that would name another memory once it exists."""
    usual = settings.config_path or settings.state_dir / CONFIG_NAMES[0]
    return [str(usual), str(own_file(os.environ, home=home_dir(os.environ, Path.cwd())))]


def _answers(socket: str) -> bool:
    connection = connect(socket)
    if connection is not None:
        connection.close()
    return connection is not None


# --- glibc's malloc: a limit on its arenas, and the memory that it keeps although nothing is in it ---

MOST_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def limit_arenas() -> None:
    """Limits the arenas, before this process starts threads. glibc's own variable takes precedence."""
    mallopt = _function("mallopt")
    if mallopt is not None and _VARIABLE not in os.environ:
        mallopt(_M_ARENA_MAX, MOST_ARENAS)


GIVE_BACK_EVERY_S: Final = 60.0
_PATIENCE_S: Final = 10.0
"""It takes a millisecond or two."""


async def give_back_regularly(every_s: float = GIVE_BACK_EVERY_S) -> None:
    """Gives free pages back to the system, until cancelled. By itself malloc only does so at the end of an arena, where
    one small block that stays is enough to keep all below it.
    """
    trim = _function("malloc_trim")
    if trim is None:
        return
    work = BoundedWork("giving back of memory")
    while True:
        await anyio.sleep(every_s)
        with suppress(TimeoutError):  # the next time does
            await work.run(partial(trim, 0), _PATIENCE_S)


def _function(name: str) -> Callable[..., int] | None:
    """Returns a function of glibc; None with another C library."""
    return getattr(ctypes.CDLL(None), name, None) if IS_LINUX else None
