"""Answers of embedding hosts, through the vendors' own libraries and over real sockets.

The first byte is the status, the rest the body.
"""

from __future__ import annotations

import atexit
from functools import cache, partial
from typing import Any, Literal

from anyio.from_thread import BlockingPortal, start_blocking_portal

from fakes.settings import make_settings, remote
from fuzzing.places import place
from fuzzing.targets.host import Host
from fuzzing.targets.vectors import check_items
from providers.errors import ProviderError
from providers.interface import ProviderRequest
from providers.registry import provider

VendorName = Literal["openai", "gemini", "voyage"]

_STATUSES = (200, 200, 200, 200, 200, 400, 401, 403, 404, 413, 429, 500, 503, 204, 302)
_TEXTS = ("alpha beta", "gamma", "delta")
_BASE = {"openai": "/v1", "gemini": "/v1beta", "voyage": "/v1"}
_KEY = "test-key-0123456789abcdef"


def run(vendor: VendorName, data: bytes) -> None:
    portal, host = _portal(), _host()
    embedder = _embedder(vendor)
    host.status = _STATUSES[data[0] % len(_STATUSES)] if data else 200
    host.body = data[1:]
    try:
        batch = portal.call(embedder.embed_documents, _TEXTS)
    except ProviderError as error:
        assert error.message
        assert _KEY not in str(error)
        return
    check_items(batch.items, len(_TEXTS))
    assert isinstance(batch.tokens, int)
    assert batch.tokens >= 0


openai = partial(run, "openai")
gemini = partial(run, "gemini")
voyage = partial(run, "voyage")


@cache
def _portal() -> BlockingPortal:
    context = start_blocking_portal()
    portal = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return portal


@cache
def _host() -> Host:
    host = Host()
    atexit.register(host.close)
    return host


@cache
def _embedder(vendor: VendorName) -> Any:
    block = remote(_host().origin + _BASE[vendor], _KEY)
    search = {"provider": vendor, "remote": block, "output_dimensionality": 3}
    embedder = provider(vendor).create(
        ProviderRequest(make_settings(place("vendors"), search=search), "primary")
    )
    atexit.register(_portal().call, embedder.aclose)
    return embedder
