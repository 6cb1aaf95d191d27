"""Batch jobs of OpenAI, and of Voyage, which has the same calls: files, jobs, and lines of results.

It makes the documented HTTP calls through the same guarded client as all other requests: Voyage's library has no jobs,
and OpenAI's takes half a second to import. An uploaded file and the job made of it are found again by the file's name
and id, so a lost answer costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO, Any, Final

import msgspec

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
from providers.remote.wires import encoding_of

_ENDPOINT: Final = "/v1/embeddings"
_PAGE: Final = 100
_MOST_LISTED: Final = 2_000
"""A new job is at the top of the list."""
_FIRST_ERROR: Final = 400
_OUTCOMES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "failed": "failed",
    "expired": "expired",
    "cancelled": "cancelled",
    "canceled": "cancelled",
}
_SIZES: Final = frozenset({"token_limit_exceeded", "request_limit_exceeded", "file_too_large"})
"""Error codes of a job that was too large for this account, or for any."""


class _File(msgspec.Struct):
    id: str
    filename: str = ""


class OpenAIBatches:
    """Implements `providers.provider_interface.BatchHost`."""

    def __init__(self, spec: RemoteSpec) -> None:
        self._spec = spec
        self._base = spec.endpoint.base_url
        self._http = open_client(spec)
        self._downloads = open_client(spec, max_lines_bytes=MOST_BYTES)

    def line(self, key: str, text: str) -> bytes:
        body = given(
            model=self._spec.model,
            input=without_lone_surrogates(text),
            encoding_format=encoding_of(self._spec),
            dimensions=self._spec.dimensions,
            input_type=self._spec.input_type("document"),
        )
        request = {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}
        return msgspec.json.encode(request) + b"\n"

    async def find_upload(self, name: str) -> str | None:
        page = await self._ask("GET", "files", params={"purpose": "batch", "limit": _PAGE})
        with typed_errors(self._spec):
            files = msgspec.convert(page, prepared(_Page)).data
            found = (msgspec.convert(fields, prepared(_File)) for fields in files)
            return next((file.id for file in found if file.filename == name), None)

    async def upload(self, name: str, file: IO[bytes]) -> str:
        content = {"file": (name, file, "application/jsonl")}
        fields = await self._ask("POST", "files", files=content, data={"purpose": "batch"})
        with typed_errors(self._spec):
            return msgspec.convert(fields, prepared(_File)).id

    async def find(self, file_id: str) -> RemoteJob | None:
        with typed_errors(self._spec):
            async for fields in self._jobs():
                if msgspec.convert(fields, prepared(_Job)).input_file_id == file_id:
                    return read_job(fields)
        return None

    async def create(self, file_id: str, label: str) -> RemoteJob:
        job = {
            "input_file_id": file_id,
            "endpoint": _ENDPOINT,
            "metadata": {"source": "memory-gateway", "job": label},
            **self._terms(),
        }
        return self._described(await self._ask("POST", "batches", json=job))

    def _terms(self) -> dict[str, object]:
        return {"completion_window": "24h"}

    async def look(self, job_id: str) -> RemoteJob:
        return self._described(await self._ask("GET", f"batches/{job_id}"))

    async def cancel(self, job_id: str) -> None:
        await self._ask("POST", f"batches/{job_id}/cancel")

    async def read(self, file_id: str, on_results: OnResults) -> None:
        reader = ResultReader(read_line, on_results, self._spec.dimensions)
        url = f"{self._base}/files/{file_id}/content"
        with typed_errors(self._spec):
            async with self._downloads.stream("GET", url) as answer:
                await reader.read(answer.aiter_bytes())

    async def delete(self, file_id: str) -> None:
        with deleting(self._spec):
            await self._ask("DELETE", f"files/{file_id}")

    async def aclose(self) -> None:
        await self._http.aclose()
        await self._downloads.aclose()

    async def _jobs(self) -> AsyncIterator[object]:
        """Yields the jobs, the newest first."""
        params: dict[str, str | int] = {"limit": _PAGE}
        for _ in range(_MOST_LISTED // _PAGE):
            page = msgspec.convert(
                await self._ask("GET", "batches", params=params), prepared(_Page)
            )
            for fields in page.data:
                yield fields
            if not page.has_more or not page.data:
                return
            params["after"] = msgspec.convert(page.data[-1], prepared(_Job)).id

    async def _ask(self, method: str, path: str, **content: Any) -> object:
        with typed_errors(self._spec):
            answer = await self._http.request(method, f"{self._base}/{path}", **content)
            return msgspec.json.decode(answer.content)

    def _described(self, fields: object) -> RemoteJob:
        with typed_errors(self._spec):
            return read_job(fields)


class VoyageBatches(OpenAIBatches):
    """Voyage's jobs: model and options belong to the job, and the lines of the file contain only the texts."""

    def line(self, key: str, text: str) -> bytes:
        body = {"input": [without_lone_surrogates(text)]}
        return msgspec.json.encode({"custom_id": key, "body": body}) + b"\n"

    def _terms(self) -> dict[str, object]:
        options = given(
            model=self._spec.model,
            input_type=self._spec.input_type("document"),
            output_dimension=self._spec.dimensions,
        )
        return {"completion_window": "12h", "request_params": options}


class _Page(msgspec.Struct):
    data: list[object] = []
    has_more: bool = False


class _Fault(msgspec.Struct):
    code: str | None = None


class _Faults(msgspec.Struct):
    data: list[_Fault] | None = None


class _Counts(msgspec.Struct):
    completed: int = 0


class _Job(msgspec.Struct):
    id: str
    status: str
    input_file_id: str = ""
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Faults | None = None
    request_counts: _Counts | None = None


def read_job(fields: object) -> RemoteJob:
    """Raises `msgspec.ValidationError` if this is not a job."""
    job = msgspec.convert(fields, prepared(_Job))
    counts = job.request_counts or _Counts()
    files = (job.output_file_id, job.error_file_id)
    return RemoteJob(
        id=job.id,
        state=job.status,
        outcome=_OUTCOMES.get(job.status),
        done=counts.completed,
        result_files=tuple(file for file in files if file),
        reason=_reason(job.errors),
        too_large=_reason(job.errors) in _SIZES,
    )


def _reason(faults: _Faults | None) -> str | None:
    codes = [fault.code for fault in (faults.data if faults else None) or () if fault.code]
    return code_in(codes[0]) if codes else None


class _Row(msgspec.Struct):
    embedding: object = None


class _Body(msgspec.Struct):
    data: object = ()
    error: object = None


class _Response(msgspec.Struct):
    status_code: int = 200
    body: object = None


class _RawLine(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: object = None


def read_line(raw: bytes) -> ResultLine | None:
    """Returns the content of a line; None for one that is blank or not understood."""
    try:
        line = msgspec.json.decode(raw, type=prepared(_RawLine))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if line.response is None or line.error or line.response.status_code >= _FIRST_ERROR:
        return ResultLine(line.custom_id, error=_refusal(line))
    try:
        body = msgspec.convert(line.response.body, prepared(_Body))
        (row,) = msgspec.convert(body.data, prepared(list[_Row]))
    except (msgspec.ValidationError, ValueError):
        return ResultLine(line.custom_id, error=NO_VECTOR)
    return ResultLine(line.custom_id, row.embedding)


def _refusal(line: _RawLine) -> str:
    response = line.response
    body = response.body if response else None
    errors = (line.error, body.get("error") if isinstance(body, dict) else None)
    codes = (code_in(error.get("code")) for error in errors if isinstance(error, dict))
    status = f"HTTP {response.status_code}" if response else None
    return refused(status, next(filter(None, codes), None))
