"""What every vendor's batch jobs offer to the floor above, which vendors have them, and what one job may hold.

Nothing is sent and no vendor's library is imported before a job is to be written.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import IO, Any, Final, Literal, Protocol

import msgspec

from config.settings import Settings
from providers.choosing import Choice
from providers.errors import ProviderError
from providers.interface import Fingerprint, ItemError, Role, Vector
from providers.remote.embedder import fingerprint_of
from providers.remote.spec import RemoteSpec, resolve_spec
from providers.remote.vendors import VENDORS, Vendor

Outcome = Literal["completed", "failed", "expired", "cancelled"]
"""How a job ended. Any of them may have left results."""


class JobLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one job may hold, as the vendor documents it."""

    max_items: int
    max_bytes: int
    """The largest file that may be uploaded."""
    window_s: float
    """The vendor gives a job up this long after its creation."""


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


class BatchAccess(msgspec.Struct, frozen=True):
    """How to get batch jobs of the provider in use; nothing is opened yet."""

    fingerprint: Fingerprint
    limits: JobLimits
    place: str
    open: Callable[[], BatchHost]
    """Blocking: reads the auth profiles and imports the vendor's library. Raises `ProviderError`."""


_DAY_S: Final = 24 * 3600.0
_LIMITS: Final[dict[str, JobLimits]] = {
    # Gemini documents no limit of lines; this one has worked so far.
    "gemini": JobLimits(max_items=50_000, max_bytes=2_000_000_000, window_s=2 * _DAY_S),
    "openai": JobLimits(max_items=50_000, max_bytes=200_000_000, window_s=_DAY_S),
    "voyage": JobLimits(max_items=100_000, max_bytes=1_000_000_000, window_s=_DAY_S / 2),
}


def find_batch(settings: Settings, choice: Choice) -> BatchAccess | str:
    """Batch jobs of the provider in use, or the reason why there are none, for `status`.

    Blocking: reads the auth profiles.
    """
    if not settings.search.remote.batch.enabled:
        return "Batch jobs are switched off (remote.batch.enabled)."
    name = choice.primary.provider if choice.primary else "none"
    limits = _LIMITS.get(name)
    if limits is None:
        return f"{name} has no batch jobs; all texts are sent in ordinary requests."
    vendor = VENDORS[name]
    role: Role = "fallback" if choice.fell_back else "primary"
    try:
        spec = resolve_spec(settings, vendor, role)
    except ProviderError as error:
        return error.message
    return BatchAccess(
        fingerprint=fingerprint_of(spec),
        limits=limits,
        place=spec.place,
        open=partial(_open, settings, vendor, role),
    )


def _open(settings: Settings, vendor: Vendor, role: Role) -> BatchHost:
    spec: RemoteSpec = resolve_spec(settings, vendor, role)
    host: BatchHost = importlib.import_module(f"providers.batch.{vendor.name}").open_host(spec)
    return host


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


def read_job(fields: Any) -> RemoteJob:
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
