"""The agent that is tested: its notes and transcripts, its configuration, and how its gateway starts.

The notes are small and many, one of them never changes, and every change is atomic, as a good editor
makes it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from backends.builtin.store.sqlite.moving import lock_path
from benchmarks.notes import NoteWriter
from config.settings import Settings
from endurance.oracle import read_settings
from fakes.host_database import HostDatabase, Session
from fakes.hub import REPOSITORY, FakeHub
from fakes.transcripts import Transcript
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

if TYPE_CHECKING:
    from endurance.database import Database

FILES: Final = 40
BULLETS: Final = 12
EDITS: Final = 4
TRANSCRIPTS: Final = 3
STABLE: Final = "memory/stable.md"
SENTENCE: Final = "The lighthouse keeper of the northern reef paints the lantern room."
QUERY: Final = "lighthouse keeper lantern room"
OTHER_QUERIES: Final = ("2020-01-05", "ba de fi")
MODEL: Final = "tiny.onnx"
COMMAND: Final = (sys.executable, "-m", "gateway", "serve")
ANSWER_S: Final = 60.0
"""The longest that anything may take before it counts as hanging."""


class Home:
    """The directories of one gateway, and its command."""

    log_level = "warning"
    command: Sequence[str] = COMMAND

    def __init__(self, state: Path, workspace: Path) -> None:
        self.workspace = workspace
        self.state = state
        self.config = state / "openclaw.json"
        self.index = state / "memory/main.memory-gateway.sqlite"
        self.lock = lock_path(self.index)
        self.sessions = state / "agents/main/sessions"
        state.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """A minimal environment, without the user's own variables."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.state), "LANG": "C.UTF-8"}

    @property
    def arguments(self) -> list[str]:
        return [
            "--workspace", str(self.workspace), "--state-dir", str(self.state),
            "--config", str(self.config), "--log-level", self.log_level,
        ]  # fmt: skip

    def gateway(
        self, prefix: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[SpawnedGateway]:
        """Returns a process of the gateway, with `prefix` before its command and `environment` added to its own."""
        return spawn_gateway(
            self.arguments,
            patience_s=ANSWER_S,
            environment={**self.environment, **(environment or {})},
            command=(*prefix, *self.command),
        )


class Agent(Home):
    """An agent under `root`. Its texts are embedded by `host`, by the local model of `hub`, or not at all.

    Its index is a file, or is in the `database`.
    """

    def __init__(
        self,
        root: Path,
        host: FakeVendor | None,
        seed: int,
        hub: FakeHub | None = None,
        database: Database | None = None,
    ) -> None:
        super().__init__(root / "state", root / "workspace")
        self.root = root
        self.config = root / "openclaw.json"
        self.rng = Random(seed)
        self.host = host
        self.hub = hub
        self.database = database
        self.models = self.state / "models"
        self.model = self.models / f"hf/{REPOSITORY}/main/{MODEL}"
        """The path of the downloaded model."""
        self.removed: set[str] = set()
        """Notes that were deleted at some time, and may be back."""
        self._writer = NoteWriter(words=2000, seed=seed)
        self._writer.workspace(self.workspace, FILES, BULLETS)
        (self.workspace / STABLE).write_text(f"# Stable\n\n- {SENTENCE}\n", encoding="utf-8")
        self.transcripts = [
            Transcript(self.sessions, f"talk{number}") for number in range(TRANSCRIPTS)
        ]
        self.talk(10)
        self.conversations: list[Session] = []
        """Those in the database of the host, once it has one."""
        self.configure()

    def configure(
        self, *, embeds: bool = False, sessions: bool = False, **memory: dict[str, Any]
    ) -> None:
        """Writes the configuration for the next start. `memory` is the block of that name."""
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
        self._search = search
        self._write(memory)

    @property
    def embeds(self) -> bool:
        """True if a host embeds what it indexes."""
        return "remote" in self._search

    def add(self, blocks: Mapping[str, Any]) -> None:
        """Adds blocks to the configuration that was written last."""
        self._write(blocks)

    def _write(self, blocks: Mapping[str, Any]) -> None:
        if self.database is not None:
            self._search["store"] = self.database.configuration()
        content = {"agents": {"defaults": {"memorySearch": self._search}}, **blocks}
        self.config.write_text(json.dumps(content), encoding="utf-8")

    def search_also(self, place: Path) -> None:
        """Adds a place to search from the next start on."""
        self._search["extraPaths"] = [str(place)]
        self._write({})

    def on_another_host(self) -> AbstractAsyncContextManager[SpawnedGateway]:
        """Returns a gateway of the same agent and index, with its own state and its own view of the workspace."""
        assert self.database is not None
        other = Home(self.root / "elsewhere", self.workspace)
        content = {**self._search, "store": self.database.configuration(view="other")}
        other.config.write_text(json.dumps({"agents": {"defaults": {"memorySearch": content}}}))
        return other.gateway(environment={"XDG_RUNTIME_DIR": str(other.state)})

    @property
    def stores(self) -> tuple[Path, ...]:
        """The directories that the gateway writes to."""
        return (self.index.parent, self.models) if self.hub else (self.index.parent,)

    @property
    def settings(self) -> Settings:
        return read_settings(self.config, self.workspace, self.state)

    @property
    def environment(self) -> dict[str, str]:
        """Sockets are under the root, and so is everything that a model's library stores."""
        return {
            **super().environment,
            "HOME": str(self.root),
            "XDG_RUNTIME_DIR": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(self.hub.environment if self.hub else {}),
        }

    def edit(self) -> None:
        """Changes some notes; sometimes deletes one or creates it again. Does nothing while the workspace is away."""
        if not self.workspace.exists():
            return
        for number in self.rng.sample(range(FILES), EDITS):
            path = self._note(number)
            if self.rng.random() < 0.1:
                path.unlink(missing_ok=True)
                self.removed.add(str(path.relative_to(self.workspace)))
            else:
                self._replace(path, number)

    def talk(self, turns: int) -> None:
        """Appends turns to the transcripts; the last line may be half written for a while."""
        for transcript in self.transcripts:
            for _ in range(turns):
                transcript.say(self._writer.sentence(20))
                transcript.work(self._writer.sentence(8))
                transcript.answer(self._writer.sentence(25))

    def begin_conversations(self) -> None:
        """Makes the host keep conversations in a database, beside the existing transcripts."""
        if not self.conversations:
            host = HostDatabase(self.state)
            keys = ["agent:main:main", "agent:main:work"]
            self.conversations = [host.session(key.rpartition(":")[2], key) for key in keys]
        self.converse(10)

    def converse(self, turns: int) -> None:
        """Appends turns to the conversations, some events packed; now and then rewinds or rewrites one."""
        for session in self.conversations:
            for number in range(turns):
                said = session.say(self._writer.sentence(20))
                session.work(self._writer.sentence(8))
                session.answer(self._writer.sentence(25), packed=bool(number % 2))
            if self.rng.random() < 0.2:
                session.rewind(said)
            elif self.rng.random() < 0.2:
                session.rewrite(said, self._writer.sentence(20), f"after {session.seq}")

    def write_backlog(self, texts: int) -> None:
        """Writes new notes with at least this number of texts to embed."""
        for number in range(texts // 10):
            parts = [
                f"## Part {number}.{part}\n\n{self._writer.sentence(260)}\n" for part in range(5)
            ]
            path = self.workspace / f"memory/backlog/{number:04}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(parts), encoding="utf-8")

    def forget_index(self) -> None:
        """Makes the agent start without an index, as after its deletion by hand."""
        if self.database is not None:
            self.database.forget()
            self._write({})
            return
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
