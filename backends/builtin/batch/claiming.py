"""Whether batch jobs are in use, which texts go into which job, and dividing one that a vendor finds too large."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backends.builtin.store.port import JobRecord, View, Writer, now_ms
from config.vendors import JobLimits
from providers.provider_interface import Fingerprint

MOST_FAILURES: Final = 2
OFF_MS: Final = 3600 * 1000
UNAVAILABLE_MS: Final = 24 * 3600 * 1000
"""A host without batch jobs does not get them soon."""
_SWITCH: Final = "batch_switch"
SMALLEST: Final = 100
"""Texts of a job: when even so few are refused, the size is not the reason."""
_KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""Accounts are promoted, and what was learned is tried again."""
_CAPACITY: Final = "batch_capacity"
REMEMBERED: Final = (_SWITCH, _CAPACITY)
"""The keys under which the store remembers what vendors taught."""
THRESHOLD: Final = 1_000
"""Texts without a vector from which on a backlog goes into jobs."""
KEPT_BACK: Final = 100
"""The newest texts of a backlog: what was just saved does not wait for a job."""
_BYTES_A_LINE: Final = 512
"""What a line needs beside its text, amply."""
_BYTES_A_CHARACTER: Final = 4
"""In UTF-8, at most; few of a text's characters take two as a part of a JSON string."""


class BatchSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the provider it holds for, in hexadecimal."""

    digest: str
    failures: int = 0
    off_until_ms: int = 0
    reason: str | None = None

    def is_off(self, now_ms: int) -> bool:
        return now_ms < self.off_until_ms

    def failed(self, reason: str, now_ms: int) -> BatchSwitch:
        """After another failed job. One that is tried after a pause switches off at once again."""
        failures = self.failures + 1
        off = now_ms + OFF_MS if failures >= MOST_FAILURES else self.off_until_ms
        return msgspec.structs.replace(self, failures=failures, off_until_ms=off, reason=reason)

    def switched_off(self, reason: str, now_ms: int, for_ms: int = OFF_MS) -> BatchSwitch:
        """At once, whatever the count."""
        return msgspec.structs.replace(self, off_until_ms=now_ms + for_ms, reason=reason)

    def succeeded(self) -> BatchSwitch:
        return BatchSwitch(digest=self.digest)


def switch_of(view: View, digest: bytes) -> BatchSwitch:
    """The switch of this provider; one that was kept for another is forgotten."""
    text = view.remembered(_SWITCH)
    if text:
        switch = msgspec.json.decode(text, type=BatchSwitch)
        if switch.digest == digest.hex():
            return switch
    return BatchSwitch(digest=digest.hex())


def save_switch(writer: Writer, switch: BatchSwitch) -> None:
    writer.remember(_SWITCH, msgspec.json.encode(switch).decode())


def new_job(writer: Writer, digest: bytes, text_hashes: Sequence[bytes]) -> None:
    """A new job that these texts wait for; they wait for no other."""
    label, items = secrets.token_hex(12), len(text_hashes)
    job = JobRecord(label=label, digest=digest, items=items, created_at_ms=now_ms())
    writer.jobs.add(job, text_hashes)


class _Capacity(msgspec.Struct, frozen=True):
    digest: str
    items: int
    learned_at_ms: int


def capacity(view: View, digest: bytes) -> int | None:
    """How many texts the vendor takes at once, in all open jobs; None: not known to be bounded."""
    text = view.remembered(_CAPACITY)
    if not text:
        return None
    learned = msgspec.json.decode(text, type=_Capacity)
    is_valid = learned.digest == digest.hex() and now_ms() < learned.learned_at_ms + _KEPT_MS
    return learned.items if is_valid else None


def divide(writer: Writer, job: JobRecord, reason: str) -> bool:
    """Puts the texts of a refused job into others; False if it is too small for that.

    Beside other jobs it was perhaps the sum that was too large: then the same number of texts is tried
    again when those have ended. The vendor's file of the refused job is still to be deleted.
    """
    open_jobs = writer.jobs.open(job.digest)
    others = sum(other.items for other in open_jobs if _is_under_way(other) and other.id != job.id)
    items = max(job.items, others) if others else job.items // 2
    if items < SMALLEST:
        return False
    _learn(writer, job.digest, items)
    refused = replace(job, state="read", outcome="divided", reason=reason, attempts=0, next_at_ms=0)
    _replace(writer, refused, items)
    for other in open_jobs:
        if other.state == "prepared" and other.items > items and not other.cancelling:
            _replace(writer, replace(other, state="closed", outcome="divided"), items)
    return True


def _is_under_way(job: JobRecord) -> bool:
    return job.state in ("uploaded", "submitted")


def _replace(writer: Writer, job: JobRecord, items: int) -> None:
    texts = sorted(writer.jobs.waiting_hashes(job))
    writer.jobs.release(job)
    writer.jobs.save(job)
    for begin in range(0, len(texts), items):
        new_job(writer, job.digest, texts[begin : begin + items])


def _learn(writer: Writer, digest: bytes, items: int) -> None:
    learned = _Capacity(digest.hex(), items, now_ms())
    writer.remember(_CAPACITY, msgspec.json.encode(learned).decode())


def claim(writer: Writer, fingerprint: Fingerprint, limits: JobLimits) -> int:
    """Puts the backlog into new jobs; returns how many jobs.

    None are made when fewer texts are left than the threshold without the newest ones, which have
    been embedded before.
    """
    digest = fingerprint.digest()
    backlog = writer.embeddings.backlog(fingerprint)
    if len(backlog) < THRESHOLD - KEPT_BACK:
        return 0
    learned = capacity(writer, digest) or limits.max_items
    jobs = list(divided(backlog, replace(limits, max_items=min(learned, limits.max_items))))
    for texts in jobs:
        new_job(writer, digest, texts)
    return len(jobs)


def divided(backlog: Sequence[tuple[bytes, int]], limits: JobLimits) -> Iterator[list[bytes]]:
    """Texts of so many characters each, in jobs within the limits of lines and bytes."""
    texts: list[bytes] = []
    filled = 0
    for text_hash, length in backlog:
        needed = _BYTES_A_CHARACTER * length + _BYTES_A_LINE
        if texts and (len(texts) == limits.max_items or filled + needed > limits.max_bytes):
            yield texts
            texts, filled = [], 0
        texts.append(text_hash)
        filled += needed
    if texts:
        yield texts
