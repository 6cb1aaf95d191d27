"""Searches whose right answer is known. An answer may be late only if it says that it is stale."""

from __future__ import annotations

import time
from typing import Any, Final

import anyio

from gateway.client import Client
from soaking.findings import Findings

PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.05
_CALL_S: Final = 60.0

Result = dict[str, Any]


async def must_find(
    client: Client, findings: Findings, path: str, word: str, **params: object
) -> None:
    """A hit in this file that shows this word, also at the lines that it claims."""

    def judge(results: list[Result]) -> str | None:
        shown = [one for one in results if word in one["snippet"].lower()]
        if [one["path"] for one in shown] == [path]:
            return None
        return f"{word} is in {path}; {len(results)} results, shown in {[r['path'] for r in shown]}"

    await _ask(client, findings, word, judge, params)


async def must_not_find(client: Client, findings: Findings, word: str) -> None:
    """No hit shows a word that stands in no file any more."""

    def judge(results: list[Result]) -> str | None:
        shown = [one["path"] for one in results if word in one["snippet"].lower()]
        return f"{word} is gone, and shown in {shown}" if shown else None

    await _ask(client, findings, word, judge, {})


async def _ask(
    client: Client, findings: Findings, word: str, judge: Any, params: dict[str, object]
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        started = time.perf_counter()
        answer: Any = await client.call(
            "memory_search", {"query": word, **params}, timeout_s=_CALL_S
        )
        findings.search_s.append(time.perf_counter() - started)
        findings.modes[answer.get("mode", answer["outcome"])] += 1
        wrong = judge(answer["results"])
        if wrong is None:
            return
        if not answer.get("stale") or time.monotonic() > deadline:
            rest = {name: answer[name] for name in answer if name != "results"}
            findings.wrong.append(f"{wrong}: {rest}")
            return
        findings.stale += 1
        await anyio.sleep(_PAUSE_S)
