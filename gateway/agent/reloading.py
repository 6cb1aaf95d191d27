"""Live configuration: reads it again and applies what changed to a memory that goes on answering.

Decides which changes apply at once, which need the backend to be opened again and which need a restart.
A configuration that cannot be read changes nothing; status and health say so until one can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from msgspec.structs import replace

from config.errors import ConfigInvalidError, ConfigProblem, MemoryGatewayError
from config.host_keys import is_disabled
from config.loading import changed_keys
from config.paths import auth_profile_paths
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork
from config.sections import SEARCH
from config.settings import Settings

if TYPE_CHECKING:
    from gateway.agent.memory import Memory

_log = Log()

_SWITCHES: Final = frozenset({"enabled", "plugins.slots.memory"})
_SEARCH: Final = frozenset(SEARCH.documented(key.path) for key in SEARCH.keys)
_STORE: Final = {key for key in _SEARCH if key.startswith("store.")}
_FIXED: Final = frozenset({"workspace"} | {key for key in _STORE if "store.vector." not in key})
"""They say which index is open, how, and for which files."""
_FOR_THE_BACKEND: Final = ("backend", "qmd.", "models.", "auth.")
_NOT_FOR_THE_BACKEND: Final = _SWITCHES | {"qmd.scope"}


PATIENCE_S: Final = 20.0
"""The time limit for reading the files of the configuration, pipes among them."""


class ReloadResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    changed: tuple[str, ...]
    """Documented key paths with another value than before, and variables that hold API keys."""
    restart_needed: tuple[str, ...]
    """The changed keys that stay as they were until the gateway is restarted."""
    reopened: bool
    """True if the backend was reopened, on the same index, to apply the changes."""
    warnings: tuple[str, ...]
    """About the configuration."""


class Reloader:
    """Reloads one memory. `read` gives the present settings of the same agent; it may block."""

    def __init__(self, memory: Memory, read: Callable[[], Settings]) -> None:
        self._memory = memory
        self._read = read
        self._was_off = is_disabled(memory.settings)
        self._credentials = _stamps(memory.settings)
        self._turn = anyio.Lock()
        self._reading = BoundedWork("reading of the configuration")

    async def reload(self) -> ReloadResult:
        """Raises ConfigInvalidError, ConfigNotFoundError, IndexUnavailableError: nothing changed."""
        async with self._turn:
            try:
                result = await self._reload()
            except MemoryGatewayError as error:
                self._memory.config_error = error
                _log.warning("the configuration stays as it was", error=str(error), kind=error.kind)
                raise
            self._memory.config_error = None
            _log.info("reloaded", **msgspec.to_builtins(result))
            return result

    async def _reload(self) -> ReloadResult:
        memory = self._memory
        read, credentials = await self._read_all()
        changed = changed_keys(memory.settings, read)
        fixed = _FIXED | _SWITCHES if self._was_off else _FIXED
        settings = self._with_fixed(read)
        reopen = (
            any(map(_concerns_backend, changed))
            or credentials != self._credentials
            or await self._is_weak()
        )
        await memory.apply(settings, reopen=reopen)
        self._credentials = credentials
        return ReloadResult(
            changed=changed,
            restart_needed=tuple(key for key in changed if key in fixed),
            reopened=reopen and not is_disabled(settings),
            warnings=tuple(f"{one.path}: {one.message}" for one in settings.warnings),
        )

    async def _read_all(self) -> tuple[Settings, tuple[object, ...]]:
        def read() -> tuple[Settings, tuple[object, ...]]:
            settings = self._read()
            return settings, _stamps(settings)

        try:
            return await self._reading.run(read, PATIENCE_S, queue_s=PATIENCE_S)
        except TimeoutError:
            message = f"the configuration was not read within {PATIENCE_S:g} s"
            raise ConfigInvalidError(
                [ConfigProblem(message=message)], remedy="See whether a network mount hangs."
            ) from None

    def _with_fixed(self, read: Settings) -> Settings:
        """Returns what was read, with the values in force where only a restart can change them."""
        now = self._memory.settings
        store = replace(now.search.store, vector=read.search.store.vector)
        search = replace(read.search, store=store)
        settings = replace(read, workspace=now.workspace, search=search, started_as=now.started_as)
        if not self._was_off:
            return settings
        off = replace(search, enabled=now.search.enabled)
        return replace(
            settings, search=off, memory_slot=now.memory_slot, enabled_key=now.enabled_key
        )

    async def _is_weak(self) -> bool:
        """Returns whether anything is weak that reopening may heal, such as a provider whose key was refused."""
        try:
            return bool(await self._memory.weaknesses())
        except (MemoryGatewayError, TimeoutError):
            return True


def _concerns_backend(key: str) -> bool:
    if key in _FIXED | _NOT_FOR_THE_BACKEND:
        return False
    is_variable = "." not in key and key.isupper()
    is_search = key in _SEARCH or key == "agentDir"
    return is_variable or is_search or key.startswith(_FOR_THE_BACKEND)


def _stamps(settings: Settings) -> tuple[object, ...]:
    """Returns the stamps of the files with credentials beside the configuration, which contain API keys too."""
    return tuple(map(_stamp, auth_profile_paths(settings.state_dir, settings.agent_dir)))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
