"""A vendor that fails and recovers: one way to misbehave after the other, with health in between."""

from __future__ import annotations

from random import Random
from typing import Final

import anyio

from fakes.faults import Fault, fault, rate_limited, status
from fakes.vendors import FakeVendor
from soaking.findings import Findings
from soaking.pace import Pace, deal

FAULTS: Final[tuple[Fault, ...]] = (
    status(500), status(503), rate_limited(), rate_limited("1"),
    *map(fault, ("hang", "drip", "reset", "invalid-json", "html", "short", "wrong-dimension", "nan", "zero")),
)  # fmt: skip
_EVERY: Final = 4
"""One round in so many is a bad one."""


async def flap(vendor: FakeVendor, findings: Findings, pace: Pace, rng: Random) -> None:
    """A round is bad or good; afterwards the vendor is well."""
    ways = deal(FAULTS, rng)
    async for number in pace():
        vendor.heal()
        vendor.requests.clear()
        if number % _EVERY == 0:
            way = next(ways)
            findings.done[f"provider: {way.status if way.kind == 'status' else way.kind}"] += 1
            vendor.misbehave(way)
        await anyio.sleep(0.01)
    vendor.heal()
