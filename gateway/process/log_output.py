"""Logs on standard error: JSON lines for machines, plain lines for people, with colours on a terminal.
Standard output is the protocol's. Callers never log memory text or secrets.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TextIO

from config.runtime.logs import merge_bound, open_structlog, write_from
from gateway.escaping import visible

if TYPE_CHECKING:
    import structlog

LONGEST_TRACEBACK_CHARS: Final = 8000
"""The longest traceback in a record, so that a log can take it as one line; the end of a traceback says most."""
_HEAD_CHARS: Final = 2000


def configure_logs(level: str = "info", *, for_people: bool = False) -> None:
    """Sets up logs, before the first record. On a terminal records are for people in any case."""
    set_up = partial(_configure_structlog, for_people=for_people)
    write_from(level, set_up, with_rich=for_people)
    handler = _LibraryRecords(sys.stderr, for_people=for_people)
    handler.setLevel(logging.WARNING)  # at lower levels vendors' libraries log the texts themselves
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _configure_structlog(*, for_people: bool) -> None:
    import structlog  # noqa: PLC0415 - with the first record

    structlog.configure(
        processors=_processors(for_people=for_people),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def _processors(*, for_people: bool) -> list[structlog.types.Processor]:
    import structlog  # noqa: PLC0415 - with the first record

    terminal = sys.stderr is not None and sys.stderr.isatty()
    plain = terminal or for_people
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=terminal and not os.environ.get("NO_COLOR"),
            exception_formatter=structlog.dev.plain_traceback,
        )
        if plain
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    return [
        merge_bound,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_traceback_text),
        *([_show_controls] if plain else []),
        renderer,
    ]


class _LibraryRecords(logging.StreamHandler[TextIO]):
    """Gives records that libraries log with the standard library the form of ours, request ids included."""

    def __init__(self, stream: TextIO, *, for_people: bool) -> None:
        super().__init__(stream)
        self._for_people = for_people

    def format(self, record: logging.LogRecord) -> str:
        return self._form.format(record)

    @cached_property
    def _form(self) -> logging.Formatter:
        structlog = open_structlog()
        *shared, renderer = _processors(for_people=self._for_people)
        form = structlog.stdlib.ProcessorFormatter
        formatter: logging.Formatter = form(
            processors=[*shared, form.remove_processors_meta, renderer]
        )
        return formatter


def _show_controls(
    _logger: object, _method: str, record: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Shows control characters: a file's name may have an escape sequence, which a terminal must not obey."""
    return {
        name: visible(value) if isinstance(value, str) else value for name, value in record.items()
    }


def _traceback_text(exc_info: structlog.typing.ExcInfo) -> str:
    """Formats a traceback without the values of variables, which may be memory text, and without its middle."""
    text = "".join(traceback.format_exception(exc_info[1])).rstrip()
    left_out = len(text) - LONGEST_TRACEBACK_CHARS
    if left_out <= 0:
        return text
    tail = text[_HEAD_CHARS + left_out :]
    return f"{text[:_HEAD_CHARS]}\n… {left_out:,} characters left out …\n{tail}"
