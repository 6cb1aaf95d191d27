"""The vendors' own libraries, which send texts through our client: our requests are compared with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openai
import voyageai
from google import genai
from google.genai import types
from voyageai.api_resources import Embedding

from providers.provider_interface import Purpose
from providers.remote.http_client import open_client
from providers.remote.spec import RemoteSpec
from providers.remote.wires import encoding_of


async def send(spec: RemoteSpec, texts: Sequence[str], purpose: Purpose) -> None:
    async with open_client(spec) as http:
        await {"openai": _openai, "gemini": _gemini, "voyage": _voyage}[spec.vendor.wire.name](
            spec, http, list(texts), purpose
        )


async def _openai(spec: RemoteSpec, http: Any, texts: list[str], purpose: Purpose) -> None:
    input_type = spec.input_type(purpose)
    client = openai.AsyncOpenAI(
        api_key="any", base_url=spec.endpoint.base_url, http_client=http, max_retries=0
    )
    await client.embeddings.with_raw_response.create(
        model=spec.model,
        input=texts,
        encoding_format=encoding_of(spec),
        dimensions=spec.dimensions or openai.omit,
        extra_body={"input_type": input_type} if input_type else None,
    )


async def _gemini(spec: RemoteSpec, http: Any, texts: list[str], purpose: Purpose) -> None:
    options = types.HttpOptions(
        base_url=spec.endpoint.base_url, api_version="", httpx_async_client=http
    )
    client = genai.Client(api_key="any", vertexai=False, http_options=options)
    await client.aio.models.embed_content(
        model=spec.model,
        # One `Content` per text: it joins plain strings into a single embedding for multimodal models.
        contents=[
            types.Content(parts=[types.Part(text=spec.prompt(purpose) + text)]) for text in texts
        ],
        config=types.EmbedContentConfig(
            task_type=spec.input_type(purpose), output_dimensionality=spec.dimensions
        ),
    )
    client.close()


async def _voyage(spec: RemoteSpec, http: Any, texts: list[str], purpose: Purpose) -> None:
    options = {
        "input_type": spec.input_type(purpose),
        "output_dimension": spec.dimensions,
    }
    session: Any = _Session(http)
    resource: Any = Embedding
    restore = voyageai.aiosession.set(session)
    try:
        await resource.acreate(
            api_key="any",
            base_url=spec.endpoint.base_url,
            model=spec.model,
            input=texts,
            encoding_format="base64",
            **{name: value for name, value in options.items() if value is not None},
        )
    finally:
        voyageai.aiosession.reset(restore)


class _Session:
    """The part of an aiohttp session that the library uses."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def request(self, method: str, url: str, headers: Any, data: bytes, **_: object) -> Any:
        return _Response(await self._client.request(method, url, headers=headers, content=data))


class _Response:
    def __init__(self, response: Any) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.content = response.content

    async def read(self) -> bytes:
        return self.content

    def release(self) -> None:
        pass
