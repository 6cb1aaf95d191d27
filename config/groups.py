"""Takes a lone error out of the exception groups that task groups put around it.

Callers of a context manager should not have to know that there is a task group inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def lone_error(error: BaseException) -> BaseException:
    """The one exception inside of nested groups; a group of several stays a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raises what its body raises; where that is a group of one exception, the exception itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = lone_error(group)
        if error is group:
            raise
        raise error from error.__cause__
