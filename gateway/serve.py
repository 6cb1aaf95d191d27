"""The long-running process: one agent's memory behind the stdio pipe.

Owns the order of starting and ending: the pipe is claimed first, signals and end of input end it, the
index is closed last. Exit code 0 for every orderly end.
"""

from __future__ import annotations

import signal

import anyio
import structlog

from config.groups import ungrouped
from config.settings import Settings
from gateway.logs import configure_logs
from gateway.memory import open_memory
from gateway.methods import build_registry
from gateway.rpc.connection import serve_connection
from gateway.rpc.descriptors import ProtocolDescriptors, claim_stdio
from gateway.rpc.streams import DescriptorReader, DescriptorWriter
from gateway.version import VERSION

_log = structlog.get_logger(__name__)


def serve(settings: Settings, *, log_level: str = "info") -> int:
    """Serves until the input ends or a signal comes; returns the exit code.

    Raises IndexUnavailableError when the index cannot be opened at all.
    """
    pipe = claim_stdio()
    configure_logs(log_level)
    for warning in settings.warnings:
        _log.warning("configuration", path=warning.path, line=warning.line, message=warning.message)
    with ungrouped():
        anyio.run(_serve, settings, pipe)
    return 0


async def _serve(settings: Settings, pipe: ProtocolDescriptors) -> None:
    shutdown = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_signals, shutdown)
        async with open_memory(settings) as memory:
            _log.info(
                "serving",
                agent=settings.agent_id,
                version=VERSION,
                workspace=str(settings.workspace),
            )
            await serve_connection(
                DescriptorReader(pipe.input),
                DescriptorWriter(pipe.output),
                build_registry(memory, shutdown),
                shutdown=shutdown,
            )
        tasks.cancel_scope.cancel()
    _log.info("ended", agent=settings.agent_id)


async def _watch_signals(shutdown: anyio.Event) -> None:
    """SIGTERM and SIGINT end the process in order; a second one changes nothing."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            _log.info("stopping", signal=signal.Signals(number).name)
            shutdown.set()
