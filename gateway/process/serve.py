"""The long-running process: one agent's memory behind the stdio pipe and a socket.

The pipe is claimed before anything else. Signals, the end of the input and the end of the parent process
end it, with exit code 0 for every orderly end. What it serves stands in `ownership.host`.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Sequence

import anyio
import structlog
from anyio.abc import TaskGroup

from config.errors import ungrouped
from config.settings import Settings
from gateway.notify import Notifier
from gateway.ownership.host import Host, Pipe
from gateway.process.ending import Ending, end_with_parent
from gateway.process.logs import configure_logs
from gateway.process.orphans import PARENT
from gateway.process.tuning import limit_arenas, settle_collector, share_interpreter
from gateway.rpc.transport import DescriptorReader, DescriptorWriter, claim_stdio

_log = structlog.get_logger(__name__)


def serve(
    settings: Settings,
    *,
    read_settings: Callable[[], Settings],
    log_level: str = "info",
    socket_only: bool = False,
    sockets: Sequence[socket.socket] = (),
    notifier: Notifier | None = None,
) -> int:
    """Serves until the input ends, the parent is gone or a signal comes; returns the exit code.

    `read_settings` gives the settings of the same agent again, for a reload. With `socket_only` it is
    a service: nobody is at its pipe, and its parent is no concern. `sockets` are listening ones that
    were handed in, beside the one that the owner of an index makes for itself. The `notifier` tells a
    service manager how it goes. Raises IndexUnavailableError when the index cannot be opened at all.
    """
    notifier = notifier or Notifier()
    limit_arenas()
    claimed = claim_stdio()
    configure_logs(log_level)
    settle_collector()
    share_interpreter()
    for warning in settings.warnings:
        _log.warning("configuration", path=warning.path, line=warning.line, message=warning.message)

    ending = Ending()

    async def run() -> None:
        writer = DescriptorWriter(claimed.output)
        pipe = Pipe(DescriptorReader(claimed.input), writer)
        shutdown = anyio.Event()
        host = Host(
            settings,
            read_settings=read_settings,
            pipe=None if socket_only else pipe,
            sockets=sockets,
            shutdown=shutdown,
            notifier=notifier,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_heed_signals, shutdown, host, tasks)
            tasks.start_soon(ending.limit, host.closing, shutdown, writer)
            tasks.start_soon(notifier.keep_alive)
            if not socket_only:
                tasks.start_soon(end_with_parent, PARENT, shutdown)
            await host.run()
            tasks.cancel_scope.cancel()

    try:
        with ungrouped():
            anyio.run(run)
    finally:
        ending.call_off()
    _log.info("ended", agent=settings.agent_id)
    return 0


async def _heed_signals(shutdown: anyio.Event, host: Host, tasks: TaskGroup) -> None:
    """SIGTERM and SIGINT end the process in order, a second one changes nothing; SIGHUP reloads."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP:
                tasks.start_soon(host.reload)
            else:
                _log.info("stopping", signal=signal.Signals(number).name)
                shutdown.set()
