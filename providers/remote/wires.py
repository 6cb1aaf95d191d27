"""The requests to vendors and the reading of their answers, one format each, through one client.

No vendor's library is needed, whose import would take up to a second. Requests are those of the library, field by
field: `tests/providers/test_wire_formats.py` compares them. Imports httpx2; loaded with the first request, or ahead
of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar, assert_never
from urllib.parse import quote

import anyio.to_thread
import msgspec

from config.runtime.decoding import prepared
from providers.provider_interface import Purpose
from providers.remote.answers import Reply
from providers.remote.http_client import open_client, typed_errors
from providers.remote.spec import RemoteSpec, given

T = TypeVar("T")


class Format(NamedTuple):
    path: str
    """The path below the base URL."""
    body: Callable[[RemoteSpec, Sequence[str], Purpose], Mapping[str, object]]
    parse: Callable[[bytes], Reply]


def format_of(spec: RemoteSpec) -> Format:
    match spec.vendor.wire.name:
        case "openai":
            return Format("embeddings", _openai_body, _parse)
        case "voyage":
            return Format("embeddings", _voyage_body, _parse)
        case "gemini":
            path = f"{quote(_gemini_model(spec))}:batchEmbedContents"
            return Format(path, _gemini_body, _parse_gemini)
        case unknown:
            assert_never(unknown)


class Wire:
    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._http = open_client(spec)
        self._format = format_of(spec)
        self._url = f"{spec.endpoint.base_url}/{self._format.path}"

    async def send(self, texts: Sequence[str], purpose: Purpose) -> Reply:
        body = self._format.body(self._spec, texts, purpose)
        headers = {"content-type": "application/json", "accept": "application/json"}
        with typed_errors(self._spec):
            content = msgspec.json.encode(body)
            answer = await self._http.post(self._url, content=content, headers=headers)
            return await anyio.to_thread.run_sync(self._format.parse, answer.content)

    async def aclose(self) -> None:
        await self._http.aclose()


def encoding_of(spec: RemoteSpec) -> Literal["base64", "float"]:
    """Returns the encoding: base64 is a third of the size, but hosts that are compatible often know only floats."""
    return "base64" if spec.official and spec.vendor.name == "openai" else "float"


def decoded(body: bytes, shape: type[T]) -> T:
    """Decodes an answer of this shape. Raises `msgspec.ValidationError` or `ValueError`."""
    try:
        return msgspec.json.decode(body, type=prepared(shape))
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # NaN and Infinity are not JSON, but some hosts send them; they make one item invalid, not all.
        return msgspec.convert(json.loads(body), prepared(shape))


class _Row(msgspec.Struct):
    embedding: object = None
    """Not checked here: a row that is not an embedding is an error of its text alone."""
    index: int | None = None


class _Usage(msgspec.Struct):
    total_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Row]
    usage: _Usage | None = None


def _parse(body: bytes) -> Reply:
    """Returns the rows of OpenAI's and Voyage's answer as they came."""
    answer = decoded(body, _Answer)
    rows = [(row.index, row.embedding) for row in answer.data]
    return Reply(rows, answer.usage.total_tokens if answer.usage else 0)


class _GeminiRow(msgspec.Struct):
    values: object = None


class _GeminiAnswer(msgspec.Struct):
    embeddings: list[_GeminiRow] | None = None


def _parse_gemini(body: bytes) -> Reply:
    return Reply([(None, row.values) for row in decoded(body, _GeminiAnswer).embeddings or ()])


def _openai_body(spec: RemoteSpec, texts: Sequence[str], purpose: Purpose) -> Mapping[str, object]:
    return given(
        model=spec.model,
        input=texts,
        encoding_format=encoding_of(spec),
        dimensions=spec.dimensions,
        input_type=spec.input_type(purpose),
    )


def _voyage_body(spec: RemoteSpec, texts: Sequence[str], purpose: Purpose) -> Mapping[str, object]:
    return given(
        model=spec.model,
        input=texts,
        encoding_format="base64",
        input_type=spec.input_type(purpose),
        output_dimension=spec.dimensions,
    )


def _gemini_body(spec: RemoteSpec, texts: Sequence[str], purpose: Purpose) -> Mapping[str, object]:
    prompt = spec.prompt(purpose)
    return {
        "requests": [
            given(
                model=_gemini_model(spec),
                content={"parts": [{"text": prompt + text}]},
                taskType=spec.input_type(purpose),
                outputDimensionality=spec.dimensions,
            )
            for text in texts
        ]
    }


def _gemini_model(spec: RemoteSpec) -> str:
    tuned = spec.model.startswith(("models/", "tunedModels/"))
    return spec.model if tuned else f"models/{spec.model}"
