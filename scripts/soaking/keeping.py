"""A client that keeps notes: it edits files, and asks for what it knows to stand in them.

One of several; each has its own notes, its own connection, and leaves and returns now and then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.client import Client, connect
from gateway.ownership.sockets import reach_owner
from soaking.asking import must_find, must_not_find
from soaking.findings import Findings
from soaking.notes import Notes
from soaking.pace import Pace, deal

CARDS: Final = (
    *("find",) * 8, *("gone",) * 2, *("get",) * 2, *("edit",) * 4, *("append",) * 2,
    *("grow or shrink",) * 3, "rename", "leave", "hang up",
)  # fmt: skip


class Keeper:
    """Its notes, and what it does with them."""

    def __init__(self, notes: Notes, lock: Path, findings: Findings) -> None:
        self._notes = notes
        self._lock = lock
        self._findings = findings

    async def keep(self, pace: Pace) -> None:
        """Over the socket: every connection lasts until the card to leave is dealt."""
        cards = deal(CARDS, self._notes.rng)
        async with aclosing(pace()) as rounds:
            while True:
                stream = await reach_owner(self._lock)
                async with connect(stream, stream) as client:
                    if not await self._visit(client, cards, rounds):
                        return

    async def keep_over(self, client: Client, pace: Pace) -> None:
        """Over a connection that lasts: the pipe."""
        cards = deal([card for card in CARDS if card != "leave"], self._notes.rng)
        async with aclosing(pace()) as rounds:
            await self._visit(client, cards, rounds)

    async def _visit(
        self, client: Client, cards: Iterator[str], rounds: AsyncIterator[int]
    ) -> bool:
        """False when the soak is over."""
        async for _ in rounds:
            card = next(cards)
            with self._findings.activity(card):
                if card == "leave":
                    return True
                await self._play(card, client)
        return False

    async def _play(self, card: str, client: Client) -> None:
        notes = self._notes
        if card == "find":
            note = notes.any()
            await must_find(client, self._findings, note.path, note.word)
        elif card == "gone":
            if notes.gone:
                await must_not_find(client, self._findings, notes.rng.choice(notes.gone))
        elif card == "get":
            await self._get(client)
        elif card == "hang up":
            await self._hang_up()
        else:
            getattr(notes, card.replace(" ", "_"))()

    async def _get(self, client: Client) -> None:
        note = self._notes.any()
        got: Any = await client.call("memory_get", {"path": note.path})
        if got["text"] != self._notes.text(note.path):
            self._findings.wrong.append(f"memory_get of {note.path}: {got}")

    async def _hang_up(self) -> None:
        """Requests and half a line, and nobody who waits for the answers."""
        stream = await reach_owner(self._lock)
        async with stream:
            for number, word in enumerate(("boiler", "heating", self._notes.any().word)):
                params = {"query": word}
                call = {"jsonrpc": "2.0", "id": number, "method": "memory_search", "params": params}
                await stream.send(msgspec.json.encode(call) + b"\n")
            await stream.send(b'{"jsonrpc":"2.0","id":9,"method":"sta')
