"""The ways in which a fake vendor can misbehave, and how to ask for them."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

Kind = Literal[
    "status",
    "hang",
    "drip",
    "reset",
    "redirect",
    "invalid-json",
    "html",
    "huge",
    "short",
    "reordered",
    "wrong-dimension",
    "nan",
    "zero",
    "gzip",
    "bomb",
    "nested-bomb",
    "rows",
    "values",
]


@dataclass(frozen=True)
class Fault:
    """One way to misbehave. `position` is that of the text whose vector is spoilt."""

    kind: Kind
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    position: int = 0
    location: str = ""

    @property
    def before_checks(self) -> bool:
        """True if it happens to any request, also to one that would be refused."""
        return self.kind in ("status", "hang", "drip", "reset", "redirect")


BOMB_BYTES = 256 << 20
"""The size of a bomb when it is decompressed; compressed three times it has some hundred bytes."""


@cache
def bomb(layers: int) -> bytes:
    """Returns blanks, compressed as many times as there are layers."""
    packer = zlib.compressobj(level=9, wbits=16 + zlib.MAX_WBITS)
    blanks = b" " * (1 << 20)
    data = b"".join(packer.compress(blanks) for _ in range(BOMB_BYTES >> 20)) + packer.flush()
    for _ in range(layers - 1):
        data = gzip.compress(data, 9)
    return data


def fault(kind: Kind, position: int = 0) -> Fault:
    return Fault(kind, position=position)


def status(code: int, body: Any = None, **headers: str) -> Fault:
    """Returns the fault that answers with this status. Header names are given with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault("status", code, named, body)


def rate_limited(retry_after: str | None = None) -> Fault:
    return Fault("status", 429, {} if retry_after is None else {"retry-after": retry_after})


def redirect(location: str, code: int = 307) -> Fault:
    return Fault("redirect", code, location=location)


def openai_quota() -> Fault:
    """Returns OpenAI's answer when the quota of the account is used up."""
    error = {
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
    return Fault("status", 429, body={"error": error})


def gemini_quota(period: Literal["Day", "Minute"], delay: str = "0.01s") -> Fault:
    """Returns Gemini's answer when a quota is used up; the daily and the minutely one have the same words."""
    error = {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [
                    {"quotaId": f"EmbedContentRequestsPer{period}PerProjectPerModel-FreeTier"}
                ],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
        ],
    }
    return Fault("status", 429, body={"error": error})


def voyage_quota() -> Fault:
    """Returns Voyage's answer when the account has no money left."""
    return Fault("status", 429, body={"detail": "Your account has insufficient balance."})
