"""Batch jobs of Voyage, by its documented HTTP calls, since its library has none.

They go through the same guarded client as all other requests. Model and options belong to the job; the lines
of the file hold only the texts.
"""

from __future__ import annotations

from typing import IO, Any, Final

import httpx2
import msgspec

from providers.batch.hosts import OnResults, RemoteJob, read_job
from providers.batch.result_files import ResultReader, deleting, read_line, read_results
from providers.provider_interface import without_lone_surrogates
from providers.remote.http_client import open_client, typed_errors
from providers.remote.spec import RemoteSpec

_ENDPOINT: Final = "/v1/embeddings"
_MOST_RESULT_BYTES: Final = 4 << 30
_PAGE: Final = 100


class _File(msgspec.Struct):
    id: str
    filename: str = ""


class _Job(msgspec.Struct):
    input_file_id: str = ""


class VoyageBatches:
    """Implements `providers.batch.hosts.BatchHost`."""

    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._base = spec.endpoint.base_url
        self._http = open_client(spec)
        self._downloads = open_client(spec, max_lines_bytes=_MOST_RESULT_BYTES)

    def line(self, key: str, text: str) -> bytes:
        body = {"input": [without_lone_surrogates(text)]}
        return msgspec.json.encode({"custom_id": key, "body": body}) + b"\n"

    async def find_upload(self, name: str) -> str | None:
        for entry in await self._listed("files", purpose="batch"):
            file = msgspec.convert(entry, _File)
            if file.filename == name:
                return file.id
        return None

    async def upload(self, name: str, file: IO[bytes]) -> str:
        content = {"file": (name, file, "application/jsonl")}
        fields = await self._ask("POST", "files", files=content, data={"purpose": "batch"})
        with typed_errors(self._spec):
            return msgspec.convert(fields, _File).id

    async def find(self, file_id: str) -> RemoteJob | None:
        with typed_errors(self._spec):
            for entry in await self._listed("batches"):
                if msgspec.convert(entry, _Job).input_file_id == file_id:
                    return read_job(entry)
        return None

    async def create(self, file_id: str, label: str) -> RemoteJob:
        options = {
            "model": self._spec.model,
            "input_type": self._spec.input_type("document"),
            "output_dimension": self._spec.dimensions,
        }
        job = {
            "input_file_id": file_id,
            "endpoint": _ENDPOINT,
            "completion_window": "12h",
            "request_params": {name: value for name, value in options.items() if value is not None},
            "metadata": {"source": "memory-gateway", "job": label},
        }
        return self._job(await self._ask("POST", "batches", json=job))

    async def look(self, job_id: str) -> RemoteJob:
        return self._job(await self._ask("GET", f"batches/{job_id}"))

    async def cancel(self, job_id: str) -> None:
        await self._ask("POST", f"batches/{job_id}/cancel")

    async def read(self, file_id: str, on_results: OnResults) -> None:
        reader = ResultReader(read_line, on_results, self._spec.dimensions)
        url = f"{self._base}/files/{file_id}/content"
        with typed_errors(self._spec):
            async with self._downloads.stream("GET", url) as answer:
                await read_results(answer.aiter_bytes(), reader)

    async def delete(self, file_id: str) -> None:
        with deleting(self._spec):
            await self._ask("DELETE", f"files/{file_id}")

    async def aclose(self) -> None:
        await self._http.aclose()
        await self._downloads.aclose()

    async def _listed(self, what: str, **query: str) -> list[object]:
        """The newest entries of a list."""
        fields = await self._ask("GET", what, params={"limit": str(_PAGE), **query})
        entries = fields.get("data") if isinstance(fields, dict) else None
        return entries if isinstance(entries, list) else []

    async def _ask(self, method: str, path: str, **content: Any) -> object:
        with typed_errors(self._spec):
            answer: httpx2.Response = await self._http.request(
                method, f"{self._base}/{path}", **content
            )
            return msgspec.json.decode(answer.content)

    def _job(self, fields: object) -> RemoteJob:
        with typed_errors(self._spec):
            return read_job(fields)
