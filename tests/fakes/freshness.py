"""The notes and questions of tests of freshness in several folders."""

from __future__ import annotations

from backends.interface import SearchRequest


async def stale_of(backend, query="boiler"):
    return (await backend.search(SearchRequest(query=query))).stale


def large_note(words: str, kilobytes: int) -> str:
    return f"{words} {'filling words without meaning ' * 34}\n" * kilobytes
