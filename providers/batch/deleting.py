"""Deleting a file that the vendor may have deleted already."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from providers.errors import ProviderError
from providers.remote.spec import RemoteSpec
from providers.remote.transport import typed_errors

GONE: Final = frozenset({404, 405, 410})
"""405: a compatible server that knows no deleting."""


@contextmanager
def deleting(spec: RemoteSpec, gone: Collection[int] = GONE) -> Iterator[None]:
    """Raises `ProviderError`, but not for the statuses of a file that is `gone`."""
    try:
        with typed_errors(spec):
            yield
    except ProviderError as error:
        if error.status not in gone:
            raise
