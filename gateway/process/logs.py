"""Logs on standard error: JSON lines for machines, plain lines for people, with colours on a terminal.
Standard output is the protocol's. Callers never log memory text or secrets.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Final

import structlog

from gateway.tools.search import escape_controls

LONGEST_TRACEBACK_CHARS: Final = 8000
"""A record of a fault stays a line that a log can hold; the end of a traceback tells most."""
_HEAD_CHARS: Final = 2000

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure_logs(level: str = "info", *, for_people: bool = False) -> None:
    """Call before the first record. On a terminal records are for people in any case."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    plain = terminal or for_people
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_traceback_text),
        *([_show_controls] if plain else []),
    ]
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=terminal and not os.environ.get("NO_COLOR"),
            exception_formatter=structlog.dev.plain_traceback,
        )
        if plain
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    _adopt_library_logs(
        [*shared, structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
    )


def _show_controls(
    _logger: object, _method: str, record: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """A file's name may hold an escape sequence, which a terminal must not obey; JSON escapes it."""
    return {
        name: escape_controls(value) if isinstance(value, str) else value
        for name, value in record.items()
    }


def _traceback_text(exc_info: structlog.typing.ExcInfo) -> str:
    """Without the values of variables, which may be memory text, and with its middle left out."""
    text = "".join(traceback.format_exception(exc_info[1])).rstrip()
    left_out = len(text) - LONGEST_TRACEBACK_CHARS
    if left_out <= 0:
        return text
    tail = text[_HEAD_CHARS + left_out :]
    return f"{text[:_HEAD_CHARS]}\n… {left_out:,} characters left out …\n{tail}"


def _adopt_library_logs(processors: list[structlog.types.Processor]) -> None:
    """What libraries log with the standard library looks like our own, request ids included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)  # at lower levels vendors' libraries log the texts themselves
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=processors))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
