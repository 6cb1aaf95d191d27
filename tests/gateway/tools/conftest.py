"""Results in their form on the wire, and answers from which they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from backends.interface import Hit, SearchAnswer
from gateway.rpc.registry import decode_params
from gateway.rpc.wire import RequestId, encode_result


@pytest.fixture
def on_the_wire() -> Callable[[Any], Any]:
    """Returns what a client gets: the result after real encoding and decoding."""
    return lambda result: msgspec.json.decode(encode_result(RequestId(b"1", "1"), result))["result"]


@pytest.fixture
def params_of() -> Callable[..., Any]:
    """Returns parameters as they arrive: `params_of(SearchParams, query="x", maxResults=3)`."""
    return lambda kind, **members: decode_params("method", kind, msgspec.json.encode(members))


@pytest.fixture
def hit() -> Callable[..., Hit]:
    def make(**fields: Any) -> Hit:
        defaults: dict[str, Any] = {
            "path": "memory/2026-02-08.md",
            "start_line": 12,
            "end_line": 30,
            "score": 0.75,
            "snippet": "- The boiler.",
            "source": "memory",
        }
        return Hit(**(defaults | fields))

    return make


@pytest.fixture
def answer() -> Callable[..., SearchAnswer]:
    def make(*hits: Hit, **fields: Any) -> SearchAnswer:
        outcome = "ok" if hits else "empty"
        defaults = {"hits": hits, "outcome": outcome, "backend": "builtin", "mode": "keyword"}
        return SearchAnswer(**(defaults | fields))

    return make
