"""New batch jobs, and whether batch jobs are used at present."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from backends.builtin.store.port import JobRecord, View, Writer, now_ms


def add(writer: Writer, digest: bytes, text_hashes: Sequence[bytes]) -> None:
    """A new job that these texts wait for; they wait for no other."""
    label, items = secrets.token_hex(12), len(text_hashes)
    job = JobRecord(label=label, digest=digest, items=items, created_at_ms=now_ms())
    writer.jobs.add(job, text_hashes)


MOST_FAILURES: Final = 2
OFF_MS: Final = 3600 * 1000
UNAVAILABLE_MS: Final = 24 * 3600 * 1000
"""A host without batch jobs does not get them soon."""
_KEY: Final = "batch_switch"


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the provider it holds for, in hexadecimal."""

    digest: str
    failures: int = 0
    off_until_ms: int = 0
    reason: str | None = None

    def is_off(self, now_ms: int) -> bool:
        return now_ms < self.off_until_ms

    def failed(self, reason: str, now_ms: int) -> Switch:
        """After another failed job. One that is tried after a pause switches off at once again."""
        failures = self.failures + 1
        off = now_ms + OFF_MS if failures >= MOST_FAILURES else self.off_until_ms
        return msgspec.structs.replace(self, failures=failures, off_until_ms=off, reason=reason)

    def switched_off(self, reason: str, now_ms: int, for_ms: int = OFF_MS) -> Switch:
        """At once, whatever the count."""
        return msgspec.structs.replace(self, off_until_ms=now_ms + for_ms, reason=reason)

    def succeeded(self) -> Switch:
        return Switch(digest=self.digest)


def load(view: View, digest: bytes) -> Switch:
    """Of this provider; one that was kept for another is forgotten."""
    text = view.remembered(_KEY)
    if text:
        switch = msgspec.json.decode(text, type=Switch)
        if switch.digest == digest.hex():
            return switch
    return Switch(digest=digest.hex())


def save(writer: Writer, switch: Switch) -> None:
    writer.remember(_KEY, msgspec.json.encode(switch).decode())
