"""The state of a gateway that embeds, read over its pipe."""

from __future__ import annotations

from typing import Any, Final

import anyio

from gateway.client import GatewayClient

_PATIENCE_S: Final = 120
_PAUSE_S: Final = 0.1


async def vector_status(client: GatewayClient) -> dict[str, Any]:
    """Returns the part of `status` about vectors and their provider."""
    status: Any = await client.call("status", {})
    vector: dict[str, Any] = status["details"]["vector"]
    return vector


async def embedded(
    client: GatewayClient, patience_s: float = _PATIENCE_S, pause_s: float = _PAUSE_S
) -> dict[str, Any]:
    """Waits until every text has its vector, and asks every `pause_s`; returns the counts."""
    with anyio.fail_after(patience_s):
        while True:
            backfill = (await vector_status(client)).get("backfill")
            if backfill and not backfill["running"]:
                coverage: dict[str, Any] = backfill["coverage"]
                if coverage["embedded"] == coverage["total"] > 0:
                    return coverage
            await anyio.sleep(pause_s)
