"""The closed set of errors that this project raises on purpose, and ways to get one out of an exception group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

_MAX_LISTED = 20


class ErrorKind(StrEnum):
    """Every value that `error.data.kind` may take on the wire. Stable: clients branch on it."""

    PARSE_ERROR = "parse_error"
    INVALID_REQUEST = "invalid_request"
    METHOD_NOT_FOUND = "method_not_found"
    INVALID_PARAMS = "invalid_params"
    LINE_TOO_LONG = "line_too_long"
    UNSUPPORTED_PROTOCOL_VERSION = "unsupported_protocol_version"
    CANCELLED = "cancelled"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    SHUTTING_DOWN = "shutting_down"
    OVERLOADED = "overloaded"
    PATH_NOT_ALLOWED = "path_not_allowed"
    FILE_UNREADABLE = "file_unreadable"
    FILE_UNWRITABLE = "file_unwritable"
    CONFIG_INVALID = "config_invalid"
    CONFIG_NOT_FOUND = "config_not_found"
    INDEX_UNAVAILABLE = "index_unavailable"
    DENIED = "denied"
    DISABLED = "disabled"
    PROVIDER_AUTH = "provider_auth"
    PROVIDER_QUOTA = "provider_quota"
    PROVIDER_RATE_LIMITED = "provider_rate_limited"
    PROVIDER_TRANSIENT = "provider_transient"
    PROVIDER_INPUT_TOO_LARGE = "provider_input_too_large"
    PROVIDER_BAD_RESPONSE = "provider_bad_response"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    QMD_UNAVAILABLE = "qmd_unavailable"
    INTERNAL = "internal"


class MemoryGatewayError(Exception):
    """Base of every error raised on purpose.

    `message` says what happened and where; `remedy` says what the reader can do about it, or is None
    when nothing can be done. `str(error)` joins both. Neither may ever hold a secret.
    """

    kind: ErrorKind = ErrorKind.INTERNAL

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message


class ConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong in a configuration file, with its place as far as it is known."""

    message: str
    file: str | None = None
    line: int | None = None
    """Counts from 1, as does `column`."""
    column: int | None = None
    path: str | None = None
    """Key path, dotted, as in the file."""

    def __str__(self) -> str:
        numbers = (("line", self.line), ("column", self.column))
        spots = [f"{name} {number}" for name, number in numbers if number is not None]
        place = ", ".join([self.file, *spots] if self.file else spots)
        return ": ".join(part for part in (place, self.path, self.message) if part)


class ConfigInvalidError(MemoryGatewayError):
    """A configuration file cannot be read or has values that are not allowed; lists all problems."""

    kind = ErrorKind.CONFIG_INVALID

    def __init__(self, problems: Sequence[ConfigProblem], *, remedy: str) -> None:
        self.problems = tuple(problems)
        super().__init__(_joined(self.problems), remedy=remedy)

    @classmethod
    def of(cls, file: Path, message: str, remedy: str) -> ConfigInvalidError:
        """Returns the error of a file that is wrong as a whole."""
        return cls([ConfigProblem(message=message, file=str(file))], remedy=remedy)


def _joined(problems: Sequence[ConfigProblem]) -> str:
    if len(problems) == 1:
        text = str(problems[0])
        return text if text.endswith("?") else f"{text}."
    lines = [f"The configuration has {len(problems)} problems:"]
    lines += [str(problem) for problem in problems[:_MAX_LISTED]]
    if len(problems) > _MAX_LISTED:
        lines.append(f"and {len(problems) - _MAX_LISTED} more")
    return "\n  ".join(lines) + "\n"


class ConfigNotFoundError(MemoryGatewayError):
    """A file or directory that the user named, or that is needed, does not exist."""

    kind = ErrorKind.CONFIG_NOT_FOUND


def lone_error(error: BaseException) -> BaseException:
    """Returns the one exception inside nested groups; a group of several stays a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raises what its body raises; instead of a group of one exception, the exception itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = lone_error(group)
        if error is group:
            raise
        raise error from error.__cause__
