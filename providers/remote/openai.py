"""OpenAI and every host that speaks its embeddings format, through the `openai` library.

Imports the library; loaded by `providers.remote.embedder.open_wire` only. The raw answer is parsed here, since
the library's own parsing neither respects `index` nor checks anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import anyio.to_thread
import msgspec
import openai

from providers.interface import Purpose
from providers.remote.embedder import Reply
from providers.remote.spec import RemoteSpec
from providers.remote.transport import PLACEHOLDER, open_client, time_limits, typed_errors


class _Row(msgspec.Struct):
    embedding: Any = None
    """Not checked here: a row that is no embedding is an error of its text alone."""
    index: int | None = None


class _Usage(msgspec.Struct):
    total_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Row]
    usage: _Usage | None = None


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
        # Base64 is a third of the size, but compatible hosts often know floats only.
        is_openai = spec.official and spec.vendor.name == "openai"
        self._encoding: Literal["base64", "float"] = "base64" if is_openai else "float"

    async def send(self, texts: Sequence[str], purpose: Purpose) -> Reply:
        input_type = self._spec.input_type(purpose)
        with typed_errors(self._spec):
            answer = await self._client.embeddings.with_raw_response.create(
                model=self._spec.model,
                input=list(texts),
                encoding_format=self._encoding,
                dimensions=self._spec.dimensions or openai.omit,
                extra_body={"input_type": input_type} if input_type else None,
                timeout=time_limits(self._spec),
            )
            return await anyio.to_thread.run_sync(parse, answer.http_response.content)

    async def aclose(self) -> None:
        await self._http.aclose()


def open_wire(spec: RemoteSpec) -> OpenAIWire:
    return OpenAIWire(spec)


def parse(body: bytes) -> Reply:
    """The answer's rows as they came. Raises `msgspec.ValidationError` or `ValueError`."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # NaN and Infinity are no JSON, but some hosts send them; they spoil one item, not all.
        answer = msgspec.convert(json.loads(body), _Answer)
    rows: list[tuple[int | None, object]] = [(row.index, row.embedding) for row in answer.data]
    return Reply(rows, answer.usage.total_tokens if answer.usage else 0)
