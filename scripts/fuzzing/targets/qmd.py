"""What QMD's server answers over HTTP."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import cache

import anyio

from backends.qmd.asking import Row, rows_of_answer
from backends.qmd.errors import QmdUnavailableError
from backends.qmd.http import post_query
from fuzzing.targets.host import Host


def server(data: bytes) -> None:
    """Any bytes in place of an HTTP answer."""
    _host().raw = data
    _ask()


def answer(data: bytes) -> None:
    """Any body in an HTTP answer that is well formed."""
    host = _host()
    host.raw, host.body = None, data
    _ask()


def _ask() -> None:
    async def ask() -> object:
        return await post_query(_host().port, {"q": "x"}, timeout_s=5.0)

    try:
        answered = anyio.run(ask)
    except QmdUnavailableError as error:
        assert error.message
        return
    _check(rows_of_answer(answered) or ())


def _check(rows: Sequence[Row]) -> None:
    for row in rows:
        assert row.collection
        assert row.path
        assert 0 <= row.score <= 1
        assert row.line is None or row.line > 0


@cache
def _host() -> Host:
    host = Host()
    atexit.register(host.close)
    return host
