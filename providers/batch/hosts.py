"""What every vendor's batch jobs offer to the floor above, and how OpenAI's wire describes a job."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, Final, Literal, Protocol

import msgspec

from providers.provider_interface import ItemError, Vector

Outcome = Literal["completed", "failed", "expired", "cancelled"]
"""How a job ended. Any of them may have left results."""


class RemoteJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job as its vendor describes it."""

    id: str
    state: str
    """The vendor's own word."""
    outcome: Outcome | None
    """None while it is under way."""
    done: int = 0
    failed: int = 0
    result_files: tuple[str, ...] = ()
    """Files with its results, errors included; we delete them when they have been read."""
    reason: str | None = None
    """Why it failed, in words that may be shown."""
    too_large: bool = False
    """Whether it failed because it held more than the vendor accepts at once."""


class Result(msgspec.Struct, frozen=True):
    """The result for one text; `key` is the one its line was written with."""

    key: str
    item: Vector | ItemError


OnResults = Callable[[Sequence[Result]], Awaitable[None]]


class BatchHost(Protocol):
    """One vendor's batch endpoint. All calls raise `ProviderError` and may be cancelled."""

    def line(self, key: str, text: str) -> bytes:
        """The request for one text, as a line of the file that is uploaded."""
        ...

    async def find_upload(self, name: str) -> str | None:
        """The file that was uploaded under this name, if there is one."""
        ...

    async def upload(self, name: str, file: IO[bytes]) -> str:
        """Uploads the lines; returns the file's id."""
        ...

    async def find(self, file_id: str) -> RemoteJob | None:
        """The job that was made from an uploaded file, if there is one."""
        ...

    async def create(self, file_id: str, label: str) -> RemoteJob: ...

    async def look(self, job_id: str) -> RemoteJob: ...

    async def cancel(self, job_id: str) -> None: ...

    async def read(self, file_id: str, on_results: OnResults) -> None:
        """Streams a file of results; `on_results` is awaited for every slice of it."""
        ...

    async def delete(self, file_id: str) -> None:
        """Deletes a file; it may have been deleted already."""
        ...

    async def aclose(self) -> None: ...


_OUTCOMES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "failed": "failed",
    "expired": "expired",
    "cancelled": "cancelled",
    "canceled": "cancelled",
}
_SIZES: Final = frozenset({"token_limit_exceeded", "request_limit_exceeded", "file_too_large"})
"""Error codes of a job that was too large for this account, or for any."""
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class _Fault(msgspec.Struct):
    code: str | None = None


class _Faults(msgspec.Struct):
    data: list[_Fault] | None = None


class _Counts(msgspec.Struct):
    completed: int = 0
    failed: int = 0


class _Job(msgspec.Struct):
    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Faults | None = None
    request_counts: _Counts | None = None


def read_job(fields: object) -> RemoteJob:
    """Raises `msgspec.ValidationError` if this is not a job."""
    job = msgspec.convert(fields, _Job)
    counts = job.request_counts or _Counts()
    files = (job.output_file_id, job.error_file_id)
    return RemoteJob(
        id=job.id,
        state=job.status,
        outcome=_OUTCOMES.get(job.status),
        done=counts.completed,
        failed=counts.failed,
        result_files=tuple(file for file in files if file),
        reason=_reason(job.errors),
        too_large=_reason(job.errors) in _SIZES,
    )


def _reason(faults: _Faults | None) -> str | None:
    codes = [fault.code for fault in (faults.data if faults else None) or () if fault.code]
    return codes[0] if codes and _CODE.fullmatch(codes[0]) else None
