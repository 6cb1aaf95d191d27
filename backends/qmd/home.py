"""Where one agent's QMD lives: directories, files and the machine's lock.

Owns the layout below `<stateDir>/agents/<agentId>/qmd/` and making it. The models of the user's own QMD
are shared by a link, since they are gigabytes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.disk.making import make_directories


@dataclass(frozen=True, slots=True)
class QmdHome:
    """The home below `root`. Paths only; `prepare` makes them."""

    root: Path

    @property
    def config_home(self) -> Path:
        return self.root / "xdg-config"

    @property
    def cache_home(self) -> Path:
        return self.root / "xdg-cache"

    @property
    def config_dir(self) -> Path:
        return self.config_home / "qmd"

    @property
    def config_file(self) -> Path:
        return self.config_dir / "index.yml"

    @property
    def index(self) -> Path:
        return self.cache_home / "qmd" / "index.sqlite"

    @property
    def models(self) -> Path:
        return self.cache_home / "qmd" / "models"

    @property
    def ledger(self) -> Path:
        """What the gateway itself has put into this home."""
        return self.root / "gateway.json"

    @property
    def exports(self) -> Path:
        """What is remembered of every exported transcript."""
        return self.root / "exports"

    @property
    def lock(self) -> Path:
        """Held by whoever changes the index or its configuration."""
        return self.root / "change.lock"

    def index_identity(self) -> tuple[int, int] | None:
        """Which file the index is now; None when there is none."""
        try:
            status = self.index.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Makes the directories (mode 0700) and links the user's models. Raises OSError."""
        for directory in (self.config_dir, self.index.parent):
            make_directories(directory)
        self.root.chmod(0o700)
        shared = user_models(environment)
        if shared.is_dir() and not os.path.lexists(self.models):
            self.models.symlink_to(shared)

    def probing(self) -> QmdHome:
        """A throw-away home inside this one, to try a program without touching the index."""
        return QmdHome(self.root / "probe")


def user_models(environment: Mapping[str, str]) -> Path:
    """Where the user's own QMD keeps models that it has downloaded."""
    named = environment.get("XDG_CACHE_HOME", "")
    cache = Path(named) if named.startswith("/") else Path(environment.get("HOME", "/")) / ".cache"
    return cache / "qmd" / "models"


def embed_lock(environment: Mapping[str, str]) -> Path:
    """One file for this user on this machine: whoever holds it may compute embeddings."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and Path(runtime).is_dir():
        return Path(runtime) / "memory-gateway-qmd-embed.lock"
    return Path(tempfile.gettempdir()) / f"memory-gateway-qmd-embed-{os.getuid()}.lock"
