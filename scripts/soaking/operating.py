"""Who runs the gateway: changes its configuration, also to nonsense, rebuilds the index, looks after it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio

from config.errors import ErrorKind
from fakes.vendors import FakeVendor
from gateway.client import Client
from soaking.findings import Findings
from soaking.pace import Pace, deal

CARDS: Final = (
    *("status",) * 4, *("health",) * 4, *("metrics",) * 2, *("sync",) * 2, *("memory_append",) * 4,
    "rebuild", "results", "weights", "chunking", "provider", "nonsense",
)  # fmt: skip
CACHED: Final = 3_000
"""Embeddings that are kept: without a bound they stay for good, by design."""
_LONG_S: Final = 300.0
_HEALTH_TRIES: Final = 3
_MOST_APPENDED: Final = 30_000
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


class Operator:
    def __init__(
        self, config: Path, workspace: Path, vendor: FakeVendor, findings: Findings, rng: Random
    ) -> None:
        self._config = config
        self._workspace = workspace
        self._findings = findings
        self._rng = rng
        remote = {"baseUrl": vendor.base_url, "apiKey": vendor.key}
        self._search: dict[str, Any] = {
            "provider": "openai",
            "remote": remote,
            "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True},
            "cache": {"maxEntries": CACHED},
        }
        self.configure()

    def configure(self, **changed: object) -> None:
        """The usual settings, with these in their place."""
        content = {
            "agents": {"defaults": {"memorySearch": self._search | changed}},
            "memory": {"append": {"enabled": True}},
        }
        self._config.write_text(json.dumps(content), encoding="utf-8")

    async def operate(self, client: Client, pace: Pace) -> None:
        cards = deal(CARDS, self._rng)
        async for _ in pace():
            card = next(cards)
            expected = (ErrorKind.CONFIG_INVALID,) if card == "nonsense" else ()
            with self._findings.activity(card, *expected):
                await self._play(card, client)

    async def _play(self, card: str, client: Client) -> None:
        match card:
            case "status" | "metrics":
                await client.call(card)
            case "health":
                await self._health(client)
            case "sync" | "rebuild":
                await client.call("sync", {"force": card == "rebuild"}, timeout_s=_LONG_S)
            case "memory_append":
                await self._append(client)
            case "nonsense":
                await self._nonsense(client)
            case _:
                self.configure(**self._change(card))
                await client.call("reload", timeout_s=_LONG_S)

    def _change(self, card: str) -> dict[str, object]:
        changes: dict[str, dict[str, object]] = {
            "results": {"query": {"maxResults": self._rng.randint(3, 12)}},
            "weights": {"query": {"hybrid": {"vectorWeight": self._rng.random()}}},
            "chunking": {"chunking": {"tokens": self._rng.choice((200, 300, 400))}},
            "provider": {"provider": "none"},
        }
        return changes[card]

    async def _health(self, client: Client) -> None:
        """Of those that follow each other one may fail for want of time, on a machine that is busy."""
        for _ in range(_HEALTH_TRIES):
            health: Any = await client.call("health")
            if health["status"] != "failing":
                return
        self._findings.errors.append(f"health: {health}")

    async def _nonsense(self, client: Client) -> None:
        """A reload has to refuse this; then the usual settings are back."""
        self._config.write_text('{"agents": {"defaults": [', encoding="utf-8")
        try:
            await client.call("reload", timeout_s=_LONG_S)
            self._findings.errors.append("a configuration without an end was accepted")
        finally:
            self.configure()
            await client.call("reload", timeout_s=_LONG_S)

    async def _append(self, client: Client) -> None:
        word = "".join(self._rng.choices(_LETTERS, k=14))
        added: Any = await client.call("memory_append", {"text": f"- Tell {word} as well."})
        lines = {"path": added["path"], "from": added["startLine"], "lines": 3}
        got: Any = await client.call("memory_get", lines)
        if word not in got["text"]:
            self._findings.wrong.append(f"{word} was appended; memory_get: {got}")
        log = anyio.Path(self._workspace / added["path"])
        if (await log.stat()).st_size > _MOST_APPENDED:
            await log.unlink()
