"""Batch jobs of OpenAI, through the `openai` library.

Imports the library; loaded by `providers.batch.vendor_jobs` only. An uploaded file and the job made of it
are found again by the file's name and id, so a lost answer costs nothing.
"""

from __future__ import annotations

from typing import IO, Final

import msgspec
import openai

from providers.batch.hosts import OnResults, RemoteJob, read_job
from providers.batch.result_files import ResultReader, deleting, read_line, read_results
from providers.provider_interface import without_lone_surrogates
from providers.remote.http_client import PLACEHOLDER, open_client, time_limits, typed_errors
from providers.remote.spec import RemoteSpec

_ENDPOINT: Final = "/v1/embeddings"
_MOST_RESULT_BYTES: Final = 4 << 30
_PAGE: Final = 100
_MOST_LISTED: Final = 2_000
"""A new job is at the top of the list."""


class OpenAIBatches:
    """Implements `providers.batch.hosts.BatchHost`."""

    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._http = open_client(spec)
        self._downloads = open_client(spec, max_lines_bytes=_MOST_RESULT_BYTES)
        self._client = openai.AsyncOpenAI(
            api_key=PLACEHOLDER,
            base_url=spec.endpoint.base_url,
            http_client=self._http,
            max_retries=0,
            timeout=time_limits(spec),
        )

    def line(self, key: str, text: str) -> bytes:
        optional = {
            "dimensions": self._spec.dimensions,
            "input_type": self._spec.input_type("document"),
        }
        body = {
            "model": self._spec.model,
            "input": without_lone_surrogates(text),
            "encoding_format": "base64" if self._spec.official else "float",
            **{name: value for name, value in optional.items() if value is not None},
        }
        request = {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}
        return msgspec.json.encode(request) + b"\n"

    async def find_upload(self, name: str) -> str | None:
        with typed_errors(self._spec):
            page = await self._client.files.list(purpose="batch", limit=_PAGE, order="desc")
            return next((file.id for file in page.data if file.filename == name), None)

    async def upload(self, name: str, file: IO[bytes]) -> str:
        with typed_errors(self._spec):
            content = (name, file, "application/jsonl")
            uploaded = await self._client.files.create(file=content, purpose="batch")
            return uploaded.id

    async def find(self, file_id: str) -> RemoteJob | None:
        with typed_errors(self._spec):
            seen = 0
            async for batch in self._client.batches.list(limit=_PAGE):
                if batch.input_file_id == file_id:
                    return read_job(batch.to_dict())
                seen += 1
                if seen >= _MOST_LISTED:
                    break
            return None

    async def create(self, file_id: str, label: str) -> RemoteJob:
        with typed_errors(self._spec):
            batch = await self._client.batches.create(
                input_file_id=file_id,
                endpoint=_ENDPOINT,
                completion_window="24h",
                metadata={"source": "memory-gateway", "job": label},
            )
            return read_job(batch.to_dict())

    async def look(self, job_id: str) -> RemoteJob:
        with typed_errors(self._spec):
            return read_job((await self._client.batches.retrieve(job_id)).to_dict())

    async def cancel(self, job_id: str) -> None:
        with typed_errors(self._spec):
            await self._client.batches.cancel(job_id)

    async def read(self, file_id: str, on_results: OnResults) -> None:
        reader = ResultReader(read_line, on_results, self._spec.dimensions)
        client = self._client.with_options(http_client=self._downloads)
        with typed_errors(self._spec):
            async with client.files.with_streaming_response.content(file_id) as answer:
                await read_results(answer.iter_bytes(), reader)

    async def delete(self, file_id: str) -> None:
        with deleting(self._spec):
            await self._client.files.delete(file_id)

    async def aclose(self) -> None:
        await self._http.aclose()
        await self._downloads.aclose()
