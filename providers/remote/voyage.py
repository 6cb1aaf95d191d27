"""Voyage, through the `voyageai` library.

Imports the library; loaded by `providers.remote.embedder.open_wire` only. Its resource class is used instead of
its client, because the client drops the `index` of each row. The library speaks aiohttp, whose session
follows redirects with all headers; its documented hook `voyageai.aiosession` takes a session of the
user's, and gets one that sends through the same guarded client as the other vendors' libraries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx2
import voyageai
from voyageai.api_resources import Embedding

from providers.provider_interface import Purpose
from providers.remote.answers import Reply
from providers.remote.http_client import PLACEHOLDER, open_client, typed_errors
from providers.remote.spec import RemoteSpec

_EMBEDDING = cast("Any", Embedding)
"""The library is not typed."""


class VoyageWire:
    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._http = open_client(spec)
        self._session = cast("Any", _Session(self._http))

    async def send(self, texts: Sequence[str], purpose: Purpose) -> Reply:
        options = {
            "input_type": self._spec.input_type(purpose),
            "output_dimension": self._spec.dimensions,
        }
        restore = voyageai.aiosession.set(self._session)
        try:
            with typed_errors(self._spec):
                answer = await _EMBEDDING.acreate(
                    api_key=PLACEHOLDER,
                    base_url=self._spec.endpoint.base_url,
                    model=self._spec.model,
                    input=list(texts),
                    encoding_format="base64",
                    **{name: value for name, value in options.items() if value is not None},
                )
                rows = [(row.get("index"), row.get("embedding")) for row in answer["data"]]
                return Reply(rows, (answer.get("usage") or {}).get("total_tokens", 0))
        finally:
            voyageai.aiosession.reset(restore)

    async def aclose(self) -> None:
        await self._http.aclose()


class _Session:
    """As much of an aiohttp session as the library uses."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes, **_: object
    ) -> _Response:
        return _Response(await self._client.request(method, url, headers=headers, content=data))


class _Response:
    """As much of an aiohttp response as the library uses; the body has been read already."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.content = response.content

    async def read(self) -> bytes:
        return self.content

    def release(self) -> None:
        """The connection has gone back to the pool before."""
