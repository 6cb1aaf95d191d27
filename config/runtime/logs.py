"""The log that every floor writes to.

structlog is loaded with the first record that is written. It takes a sixth of what a bare interpreter with our
libraries takes, and most commands, and most gateways that log only warnings, log nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_bound: ContextVar[Mapping[str, object]] = ContextVar("fields of every record")


def bind(**fields: object) -> None:
    """Adds fields to every later record of this task, and of the tasks and threads that it starts."""
    _bound.set({**_bound.get({}), **fields})


def unbind() -> None:
    """Removes the fields of this task, whose further work does not belong to what started it."""
    _bound.set({})


def merge_bound(
    _logger: object, _method: str, record: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Adds the fields of `bind`, as a processor of structlog. The record's own fields take precedence."""
    for name, value in _bound.get({}).items():
        record.setdefault(name, value)
    return record


class _Sink:
    """The lowest level that is written, and the function that configures structlog."""

    def __init__(self) -> None:
        self.least = 0
        self.set_up: Callable[[], object] | None = None
        self.with_rich = True
        self.lock = threading.RLock()


_sink: Final = _Sink()


def write_from(
    level: str, set_up: Callable[[], object] | None = None, *, with_rich: bool = True
) -> None:
    """Has records from this level on written; `set_up` configures structlog and runs with the first one.

    `with_rich`: whether this process may use rich itself, which structlog imports wherever it is installed, to draw
    tracebacks that we never ask for.
    """
    with _sink.lock:
        _sink.least, _sink.set_up, _sink.with_rich = LEVELS[level], set_up, with_rich


def open_structlog() -> Any:
    """Returns structlog, configured. Raises ImportError, and OSError if no more files can be opened."""
    with _sink.lock:
        structlog = _import(with_rich=_sink.with_rich)
        if _sink.set_up is not None:
            _sink.set_up()
            _sink.set_up = None
    return structlog


def _import(*, with_rich: bool) -> object:
    modules: dict[str, Any] = sys.modules
    is_kept_out = not with_rich and modules.keys().isdisjoint({"structlog", "rich"})
    if is_kept_out:
        modules["rich"] = None  # to `import`, a module that does not exist
    try:
        import structlog  # noqa: PLC0415 - with the first record
    finally:
        if is_kept_out:
            del modules["rich"]
    return structlog


class Log:
    """Writes records: what happened, in a few words, and its fields."""

    def debug(self, event: str, **fields: object) -> None:
        _write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        _write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        _write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        _write("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Writes an error, with the traceback of the exception that is being handled."""
        _write("error", event, {"exc_info": True, **fields})


def _write(level: str, event: str, fields: Mapping[str, object]) -> None:
    if LEVELS[level] < _sink.least:
        return
    try:
        structlog = open_structlog()
    except (ImportError, OSError, MemoryError):  # such as without free descriptors: unformatted
        if sys.stderr is not None:
            sys.stderr.write(f"{level}: {event} {dict(fields)}\n")
        return
    getattr(structlog.get_logger(), level)(event, **fields)
