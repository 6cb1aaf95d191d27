"""One agent under torture: its notes and transcripts, its configuration, and how its gateway starts.

Owns everything on the disk that a run works on. The notes are small and many, one of them never
changes, and every change is atomic, as a good editor makes it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.notes import NoteWriter
from config.settings import Settings
from fakes.hub import REPOSITORY, FakeHub
from fakes.transcripts import Transcript
from fakes.vendors import FakeVendor
from torturing.oracle import read_settings

FILES: Final = 40
BULLETS: Final = 12
EDITS: Final = 4
TRANSCRIPTS: Final = 3
STABLE: Final = "memory/stable.md"
SENTENCE: Final = "The lighthouse keeper of the northern reef paints the lantern room."
QUERY: Final = "lighthouse keeper lantern room"
MODEL: Final = "tiny.gguf"


class Subject:
    """Lives below `root`. `host` embeds its texts, if anybody does, or the local model of the `hub`."""

    def __init__(
        self, root: Path, host: FakeVendor | None, seed: int, hub: FakeHub | None = None
    ) -> None:
        self.root = root
        self.rng = Random(seed)
        self.host = host
        self.hub = hub
        self.workspace = root / "workspace"
        self.state = root / "state"
        self.config = root / "openclaw.json"
        self.index = self.state / "memory/main.memory-gateway.sqlite"
        self.models = self.state / "models"
        self.model = self.models / f"hf/{REPOSITORY}/main/{MODEL}"
        """Where a download leads."""
        self.removed: set[str] = set()
        """Notes that were deleted at some time, and may be back."""
        self._writer = NoteWriter(words=2000, seed=seed)
        self.state.mkdir(parents=True, exist_ok=True)
        self._writer.workspace(self.workspace, FILES, BULLETS)
        (self.workspace / STABLE).write_text(f"# Stable\n\n- {SENTENCE}\n", encoding="utf-8")
        self.transcripts = [
            Transcript(self.state / "agents/main/sessions", f"talk{number}")
            for number in range(TRANSCRIPTS)
        ]
        self.talk(10)
        self.configure()

    def configure(
        self, *, embeds: bool = False, sessions: bool = False, **memory: dict[str, Any]
    ) -> None:
        """What holds from the next start on. `memory` is the block of that name."""
        search: dict[str, Any] = {"provider": "none"}
        if self.hub is not None:
            local = {"modelPath": f"hf:{REPOSITORY}/{MODEL}", "modelCacheDir": str(self.models)}
            search = {"provider": "local", "local": local}
        elif embeds:
            assert self.host is not None
            remote = {"baseUrl": self.host.base_url, "apiKey": self.host.key}
            search = {"provider": "openai", "remote": remote | {"batch": {"pollIntervalMs": 100}}}
        if sessions:
            thresholds = {"sessions": {"deltaBytes": 1, "deltaMessages": 1}}
            search |= {
                "sources": ["memory", "sessions"],
                "experimental": {"sessionMemory": True},
                "sync": thresholds,
            }
        content = {"agents": {"defaults": {"memorySearch": search}}, **memory}
        self.config.write_text(json.dumps(content), encoding="utf-8")

    @property
    def stores(self) -> tuple[Path, ...]:
        """The directories that the gateway writes to."""
        return (self.index.parent, self.models) if self.hub else (self.index.parent,)

    @property
    def settings(self) -> Settings:
        return read_settings(self.config, self.workspace, self.state)

    @property
    def arguments(self) -> list[str]:
        return [
            "--workspace", str(self.workspace), "--state-dir", str(self.state),
            "--config", str(self.config), "--log-level", "warning",
        ]  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the user's own; sockets go below the root."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "XDG_RUNTIME_DIR": str(self.root),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **(self.hub.environment if self.hub else {}),
        }

    @property
    def command(self) -> Sequence[str]:
        return (sys.executable, "-m", "gateway", "serve")

    def edit(self) -> None:
        """Some notes change; sometimes one goes, comes or moves."""
        for number in self.rng.sample(range(FILES), EDITS):
            path = self._note(number)
            if self.rng.random() < 0.1:
                path.unlink(missing_ok=True)
                self.removed.add(str(path.relative_to(self.workspace)))
            else:
                self._replace(path, number)

    def talk(self, turns: int) -> None:
        """The transcripts grow; the last line may be half written for a while."""
        for transcript in self.transcripts:
            for _ in range(turns):
                transcript.say(self._writer.sentence(20))
                transcript.work(self._writer.sentence(8))
                transcript.answer(self._writer.sentence(25))

    def write_backlog(self, texts: int) -> None:
        """At least so many texts to embed, in notes of their own."""
        for number in range(texts // 10):
            parts = [
                f"## Part {number}.{part}\n\n{self._writer.sentence(260)}\n" for part in range(5)
            ]
            path = self.workspace / f"memory/backlog/{number:04}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(parts), encoding="utf-8")

    def forget_index(self) -> None:
        """The index is gone, as after its deletion by hand; for a first index."""
        for file in self.index.parent.glob("*"):
            if file.is_file():
                file.unlink()

    def _note(self, number: int) -> Path:
        day = date(2020, 1, 1) + timedelta(days=number)
        return self.workspace / f"memory/{day.year}/{day.isoformat()}.md"

    def _replace(self, path: Path, number: int) -> None:
        draft = path.with_suffix(".tmp")
        day = date(2020, 1, 1) + timedelta(days=number)
        draft.write_text(self._writer.note(day, BULLETS), encoding="utf-8")
        draft.replace(path)
