"""What a vendor says about one job, read from its JSON. Pure.

The format is OpenAI's, which Voyage speaks as well. Of a failure only the code is passed on: the
message may repeat a text.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from providers.batch.interface import Outcome, RemoteJob

_OUTCOMES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "failed": "failed",
    "expired": "expired",
    "cancelled": "cancelled",
    "canceled": "cancelled",
}
_SIZES: Final = frozenset({"token_limit_exceeded", "request_limit_exceeded", "file_too_large"})
"""Codes of a job that was larger than the account, or any account, may submit."""
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
    """Raises `msgspec.ValidationError` for what is no job."""
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
