"""OpenAI and every host that speaks its embeddings format, through the `openai` library.

Imports the library; loaded by `providers.remote.embedder.open_wire` only. The raw answer is parsed by us, since
the library's own parsing neither respects `index` nor checks anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread
import openai

from providers.provider_interface import Purpose
from providers.remote.answers import Reply
from providers.remote.http_client import PLACEHOLDER, open_client, time_limits, typed_errors
from providers.remote.query_wire import encoding_of, parse
from providers.remote.spec import RemoteSpec


class OpenAIWire:
    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._http = open_client(spec)
        self._client = openai.AsyncOpenAI(
            api_key=PLACEHOLDER,
            base_url=spec.endpoint.base_url,
            http_client=self._http,
            max_retries=0,
        )

    async def send(self, texts: Sequence[str], purpose: Purpose) -> Reply:
        input_type = self._spec.input_type(purpose)
        with typed_errors(self._spec):
            answer = await self._client.embeddings.with_raw_response.create(
                model=self._spec.model,
                input=list(texts),
                encoding_format=encoding_of(self._spec),
                dimensions=self._spec.dimensions or openai.omit,
                extra_body={"input_type": input_type} if input_type else None,
                timeout=time_limits(self._spec),
            )
            return await anyio.to_thread.run_sync(parse, answer.http_response.content)

    async def aclose(self) -> None:
        await self._http.aclose()
