"""Whether batch jobs are used at present: two failures in a row switch them off for a while.

Owns the count, which survives restarts in `meta`, and the reason that `status` shows.
"""

from __future__ import annotations

from typing import Final

import apsw
import msgspec

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


def load(connection: apsw.Connection, digest: bytes) -> Switch:
    """Of this provider; one that was kept for another is forgotten."""
    text = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).get
    if text:
        switch = msgspec.json.decode(text, type=Switch)
        if switch.digest == digest.hex():
            return switch
    return Switch(digest=digest.hex())


def save(connection: apsw.Connection, switch: Switch) -> None:
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_KEY, msgspec.json.encode(switch).decode()),
    )
