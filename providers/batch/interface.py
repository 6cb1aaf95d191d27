"""What every vendor's batch jobs offer to the floor above, in types.

Each call of a host is one request that is sent once: when to ask again is decided by who keeps the
record of the jobs, since that is also what survives a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import IO, Literal, Protocol

import msgspec

from providers.fingerprint import Fingerprint
from providers.interface import ItemError, Vector

Outcome = Literal["completed", "failed", "expired", "cancelled"]
"""How a job ended. Any of them may have left results."""


class JobLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one job may hold, as the vendor documents it."""

    max_items: int
    max_bytes: int
    """Of the uploaded file."""
    window_s: float
    """After so long the vendor gives up, counted from the creation of the job."""


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
    """What the vendor holds of its results, errors included; deleted when they were read."""
    reason: str | None = None
    """Why it failed, in words that may be shown."""
    too_large: bool = False
    """It failed because it held more than the vendor takes at once."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one text; `key` is what its line was written with."""

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
        """The job that was made of an uploaded file, if there is one."""
        ...

    async def create(self, file_id: str, label: str) -> RemoteJob: ...

    async def look(self, job_id: str) -> RemoteJob: ...

    async def cancel(self, job_id: str) -> None: ...

    async def read(self, file_id: str, on_results: OnResults) -> None:
        """Streams a file of results; `on_results` is awaited for every slice of it."""
        ...

    async def delete(self, file_id: str) -> None:
        """Also when there is no such file any more."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchAccess:
    """Batch jobs of the provider in use, nothing opened yet."""

    fingerprint: Fingerprint
    limits: JobLimits
    place: str
    open: Callable[[], BatchHost]
    """Blocking: reads the auth profiles and imports the vendor's library. Raises `ProviderError`."""
