"""Gemini, through the `google-genai` library.

Imports the library; loaded by `providers.remote.embedder.open_wire` only. The library asks
`batchEmbedContents` for any number of texts. Its Vertex mode and its environment variables are
switched off.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx2
from google import genai
from google.genai import types

from providers.provider_interface import Purpose
from providers.remote.answers import Reply
from providers.remote.http_client import PLACEHOLDER, open_client, typed_errors
from providers.remote.spec import RemoteSpec


def open_library(
    spec: RemoteSpec, http: httpx2.AsyncClient, base_url: str, version: str = ""
) -> genai.Client:
    """The library, sending through `http`; addresses are `base_url` with `version` put in or after."""
    return genai.Client(
        api_key=PLACEHOLDER,
        vertexai=False,
        http_options=types.HttpOptions(
            base_url=base_url,
            api_version=version,
            timeout=int(spec.request_timeout_s * 1000),
            httpx_async_client=http,
        ),
    )


class GeminiWire:
    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._http = open_client(spec)
        self._client = open_library(spec, self._http, spec.endpoint.base_url)

    async def send(self, texts: Sequence[str], purpose: Purpose) -> Reply:
        prompt = self._spec.prompt(purpose)
        with typed_errors(self._spec):
            answer = await self._client.aio.models.embed_content(
                model=self._spec.model,
                # One `Content` a text: the library joins plain strings into a single embedding
                # for multimodal models.
                contents=[types.Content(parts=[types.Part(text=prompt + text)]) for text in texts],
                config=types.EmbedContentConfig(
                    task_type=self._spec.input_type(purpose),
                    output_dimensionality=self._spec.dimensions,
                ),
            )
            return Reply([(None, entry.values) for entry in answer.embeddings or ()])

    async def aclose(self) -> None:
        await self._http.aclose()
        self._client.close()
