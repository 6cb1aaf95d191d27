"""A conversation that grows: turns are written to its transcript, announced, and found again.

When it is long it is deleted and a new one begins, as a chat gateway prunes its sessions.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

from benchmarks.notes import NoteWriter
from fakes.transcripts import Transcript
from gateway.client import Client
from soaking.asking import must_find
from soaking.findings import Findings
from soaking.pace import Pace

MOST_TURNS: Final = 200
_FIND_EVERY: Final = 4
_TURNS_A_ROUND: Final = 3


class Talker:
    def __init__(self, directory: Path, findings: Findings, rng: Random) -> None:
        self._directory = directory
        self._findings = findings
        self._rng = rng
        self._writer = NoteWriter(words=3_000, seed=rng.randrange(1 << 30))
        self._sessions = 0
        self._turns = 0

    async def talk(self, client: Client, pace: Pace) -> None:
        transcript = self._begin()
        async for number in pace():
            with self._findings.activity("turns"):
                word = self._say(transcript)
                await client.call("session_updated", {"path": str(transcript.path)})
            if number % _FIND_EVERY == 0:
                with self._findings.activity("find a turn"):
                    await client.call("sync", {}, timeout_s=120)
                    path = f"sessions/{transcript.path.name}"
                    await must_find(client, self._findings, path, word, sources=["sessions"])
            if self._turns > MOST_TURNS:
                transcript.path.unlink()
                self._findings.done["sessions deleted"] += 1
                transcript = self._begin()

    def _begin(self) -> Transcript:
        self._sessions += 1
        self._turns = 0
        return Transcript(self._directory, f"session-{self._sessions}")

    def _say(self, transcript: Transcript) -> str:
        """Some turns; returns a word that stands only in the last one."""
        for _ in range(_TURNS_A_ROUND - 1):
            transcript.say(self._writer.sentence(25))
            transcript.work("output " * 200)
        word = "".join(self._rng.choices("bcdfghjklmnpqrstvwxz", k=14))
        transcript.answer(f"{self._writer.sentence(20)} It is called {word}.")
        self._turns += _TURNS_A_ROUND
        return word
