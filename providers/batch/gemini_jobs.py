"""Batch jobs of Gemini, through the `google-genai` library: requests written, results read."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import AsyncIterator, Callable
from typing import IO, Final, TypeVar, cast

import httpx2
import msgspec
from google import genai
from google.genai import types

from config.runtime.decoding import prepared
from providers.batch.result_files import (
    MOST_BYTES,
    NO_VECTOR,
    ResultLine,
    ResultReader,
    code_in,
    deleting,
    refused,
)
from providers.provider_interface import OnResults, Outcome, RemoteJob, without_lone_surrogates
from providers.remote.http_client import open_client, typed_errors
from providers.remote.spec import RemoteSpec, given

_T = TypeVar("_T")


class _Embedding(msgspec.Struct):
    values: object = None


class _Response(msgspec.Struct):
    embedding: _Embedding | None = None


class _Error(msgspec.Struct):
    code: int | str | None = None
    status: str | None = None


class _RawLine(msgspec.Struct):
    key: str
    response: _Response | None = None
    error: _Error | None = None


def read_line(raw: bytes) -> ResultLine | None:
    """Returns the content of a line; None for one that is blank or not understood."""
    try:
        line = msgspec.json.decode(raw, type=prepared(_RawLine))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if line.error is not None:
        return ResultLine(
            line.key, error=refused(code_in(line.error.code), code_in(line.error.status))
        )
    if line.response is None or line.response.embedding is None:
        return ResultLine(line.key, error=NO_VECTOR)
    return ResultLine(line.key, line.response.embedding.values)


_PAGE: Final = 100
_MOST_LISTED: Final = 2_000
_GONE: Final = frozenset({403, 404})
"""Gemini answers 403 for a file that does not exist."""
_VERSION: Final = re.compile(r"v\d\w*")
_OUTCOMES: Final[dict[str, Outcome]] = {
    "SUCCEEDED": "completed",
    "PARTIALLY_SUCCEEDED": "completed",
    "FAILED": "failed",
    "EXPIRED": "expired",
    "CANCELLED": "cancelled",
}


class GeminiBatches:
    """Implements `providers.provider_interface.BatchHost`."""

    def __init__(self, spec: RemoteSpec) -> None:
        warnings.filterwarnings("ignore", message=r"batches\.create_embeddings\(\) is experimental")
        self._spec = spec
        self._http = open_client(spec)
        self._download_http = open_client(spec, max_lines_bytes=MOST_BYTES)
        self._client = _open_library(spec, self._http)
        self._downloads = _open_library(spec, self._download_http)

    def line(self, key: str, text: str) -> bytes:
        text = without_lone_surrogates(self._spec.prompt("document") + text)
        request = given(
            content={"parts": [{"text": text}]},
            task_type=self._spec.input_type("document"),
            output_dimensionality=self._spec.dimensions,
        )
        return msgspec.json.encode({"key": key, "request": request}) + b"\n"

    async def find_upload(self, name: str) -> str | None:
        with typed_errors(self._spec):
            config = types.ListFilesConfig(page_size=_PAGE)
            files = await self._client.aio.files.list(config=config)
            found = await _first(files, lambda file: file.display_name == name)
            return found.name if found else None

    async def upload(self, name: str, file: IO[bytes]) -> str:
        with typed_errors(self._spec):
            config = types.UploadFileConfig(mime_type="application/jsonl", display_name=name)
            source = cast("io.IOBase", file)
            uploaded = await self._client.aio.files.upload(file=source, config=config)
            return _named(uploaded.name)

    async def find(self, file_id: str) -> RemoteJob | None:
        with typed_errors(self._spec):
            config = types.ListBatchJobsConfig(page_size=_PAGE)
            jobs = await self._client.aio.batches.list(config=config)
            name = _display_name(file_id)
            found = await _first(jobs, lambda job: job.display_name == name)
            return _described(found) if found else None

    async def create(self, file_id: str, label: str) -> RemoteJob:  # noqa: ARG002 - the file's name does it
        with typed_errors(self._spec):
            job = await self._client.aio.batches.create_embeddings(
                model=self._spec.model,
                src=types.EmbeddingsBatchJobSource(file_name=file_id),
                config=types.CreateEmbeddingsBatchJobConfig(display_name=_display_name(file_id)),
            )
            return _described(job)

    async def look(self, job_id: str) -> RemoteJob:
        with typed_errors(self._spec):
            return _described(await self._client.aio.batches.get(name=job_id))

    async def cancel(self, job_id: str) -> None:
        with typed_errors(self._spec):
            await self._client.aio.batches.cancel(name=job_id)

    async def read(self, file_id: str, on_results: OnResults) -> None:
        reader = ResultReader(read_line, on_results, self._spec.dimensions)
        with typed_errors(self._spec):
            # The library streams into anything that can be written to, and awaits it.
            sink = cast("io.IOBase", reader)
            await self._downloads.aio.files.download(file=file_id, destination=sink)
            await reader.finish()

    async def delete(self, file_id: str) -> None:
        with deleting(self._spec, _GONE):
            await self._client.aio.files.delete(name=file_id)

    async def aclose(self) -> None:
        await self._http.aclose()
        await self._download_http.aclose()
        self._client.close()
        self._downloads.close()


def _open_library(spec: RemoteSpec, http: httpx2.AsyncClient) -> genai.Client:
    """Opens the library to send through `http`; its Vertex mode and its environment variables are switched off."""
    # The version is split off, since uploads go to `<address>/upload/<version>`.
    address, _, version = spec.endpoint.base_url.rpartition("/")
    if not _VERSION.fullmatch(version):
        address, version = spec.endpoint.base_url, ""
    return genai.Client(
        api_key="set-by-the-transport",
        vertexai=False,
        http_options=types.HttpOptions(
            base_url=address,
            api_version=version,
            timeout=int(spec.request_timeout_s * 1000),
            httpx_async_client=http,
        ),
    )


async def _first(entries: AsyncIterator[_T], is_it: Callable[[_T], bool]) -> _T | None:
    """Returns the first matching entry; the search ends after `_MOST_LISTED` entries, even of an endless list."""
    seen = 0
    async for entry in entries:
        if is_it(entry):
            return entry
        seen += 1
        if seen >= _MOST_LISTED:
            break
    return None


def _display_name(file_id: str) -> str:
    return f"memory-gateway {file_id}"


def _described(job: types.BatchJob) -> RemoteJob:
    state = job.state.value if job.state else ""
    file = job.dest.file_name if job.dest else None
    return RemoteJob(
        id=_named(job.name),
        state=state,
        outcome=_OUTCOMES.get(state.rpartition("_STATE_")[2]),
        result_files=(file,) if file else (),
    )


def _named(name: str | None) -> str:
    if not name:
        raise ValueError("The answer lacks a name.")
    return name
