"""Checks of what the gateway needs from the machine: disk, watches, the systemd unit, QMD. Blocks."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import anyio
from msgspec.structs import replace

from backends.qmd.home import absent, missing_models
from backends.qmd.process import QmdUnavailableError
from backends.qmd.sidecar import Sidecar, home_of, models_in, open_sidecar, read_document
from config.paths import home_dir
from config.runtime import PROC
from config.settings import Settings
from gateway import hook
from gateway.doctor import finding
from gateway.doctor.finding import Observation
from gateway.systemd_units import (
    SERVICE,
    ManagerAnswer,
    UnitState,
    drop_in_path,
    instance,
    name_of,
    read_state,
    unit_directory,
)
from gateway.watching.watcher import (
    Bursts,
    DirectoryWatches,
    WatchingFailedError,
    plan_watches,
    watched_places,
)

_MB: Final = 1_000_000
TOO_LITTLE_BYTES: Final = 50 * _MB
"""With less than this a sync will soon fail."""
SCARCE_BYTES: Final = 500 * _MB
_LIMITS: Final = Path(PROC, "sys/fs/inotify")


def check_disk(settings: Settings) -> Iterator[Observation]:
    """Checks the free space where the index is, or will be."""
    store = settings.search.store.path
    place = next(path for path in store.parents if path.is_dir())
    size = store.stat().st_size if store.is_file() else 0
    yield judge_room(shutil.disk_usage(place).free, size, str(place))


def check_hooks(_settings: Settings) -> Iterator[Observation]:
    """Reports how often hooks of clients showed their model nothing because they got no answer."""
    counts = hook.misses()
    silent = sum(counts.values())
    if not silent:
        yield finding.ok("No hook of a client was left without an answer.")
        return
    yield finding.note(
        f"Hooks of clients showed nothing {silent:,} times: {counts['slow']:,} got no answer in time, {counts['away']:,} "
        f"found no gateway, {counts['broken']:,} got an answer that is none. The first after a pause starts one.",
        hook.folder(),
        fix="If it happens often, keep one running: `memory-gateway service install`. Remove the files *.missed there to "
        "count anew.",
    )


def judge_room(free_bytes: int, index_bytes: int, place: str) -> Observation:
    """Judges the free space: a rebuild in place needs about the size of the index once more. Pure."""
    free = f"{free_bytes / _MB:,.0f} MB is free"
    fix = "Free some space, or set store.path to another disk."
    if free_bytes < TOO_LITTLE_BYTES:
        return finding.error(f"Only {free}.", place, fix=fix)
    if free_bytes < max(SCARCE_BYTES, index_bytes):
        cause = f"Only {free}; rebuilding the index ({index_bytes / _MB:,.0f} MB) needs room."
        return finding.warning(cause, place, fix=fix)
    return finding.ok(f"{free}.", place)


def check_watches(settings: Settings) -> Iterator[Observation]:
    """Sets the watches of this configuration for a moment, beside those of a running gateway."""
    places = watched_places(settings)
    if not places:
        yield finding.ok(
            "Watching is switched off in the configuration; every search looks at the disk itself.",
            "sync.watch",
        )
        return
    try:
        watches = DirectoryWatches(Bursts(places, lambda: None))
        try:
            watches.follow(plan_watches(places))
            cause = f"Changes can be watched; directories: {len(watches):,}{_limit()}."
        finally:
            watches.close()
    except WatchingFailedError as error:
        yield finding.note(
            f"Changes are noticed more slowly, by looking at the disk: {error}.",
            _LIMITS,
            fix="For a limit: sysctl -w fs.inotify.max_user_watches=524288 "
            "fs.inotify.max_user_instances=1024 (as root; /etc/sysctl.d keeps it).",
        )
        return
    yield finding.ok(cause)


def _limit() -> str:
    try:
        text = (_LIMITS / "max_user_watches").read_text(encoding="ascii")
    except OSError:
        return ""
    return f" of {int(text):,} that this user may watch"


def check_service(settings: Settings) -> Iterator[Observation]:
    """Checks the systemd service; yields nothing if none is installed, as a chat gateway may start the gateway."""
    directory = unit_directory(os.environ, home_dir(os.environ, Path.cwd()))
    drop_in = drop_in_path(directory, name_of(settings))
    if not drop_in.exists():
        return
    place, unit = str(drop_in), instance(name_of(settings))
    folder = settings.notes_folder
    whose = ("--agent", settings.agent_id) if folder is None else ("--notes", str(folder))
    if not (directory / SERVICE).exists():
        yield finding.warning(
            f"{unit} is set up, but its unit file is missing.",
            directory / SERVICE,
            fix=f"memory-gateway service install {shlex.join(whose)}",
        )
        return
    state = read_state(unit)
    if isinstance(state, ManagerAnswer):
        yield finding.note(
            f"{unit} is installed, and systemd cannot be asked about it: {state.problem}",
            place,
            fix="Log in as this user, so that XDG_RUNTIME_DIR is set, or run: loginctl enable-linger",
        )
    else:
        yield _explain(state, place)


def _explain(state: UnitState, place: str) -> Observation:
    if state.active:
        return finding.ok(f"{state.unit} is {state.state}. {state.status}".rstrip(), place)
    return finding.warning(
        f"{state.unit} is installed and {state.state}.",
        place,
        fix=f"journalctl --user -u {state.unit} tells why; then systemctl --user restart {state.unit}",
    )


_KEY: Final = "qmd.command"
_TIMEOUT_S: Final = 15.0


async def check_qmd(settings: Settings) -> list[Observation]:
    """Checks QMD; returns nothing unless it is the backend."""
    if settings.backend != "qmd":
        return []
    with tempfile.TemporaryDirectory(prefix="memory-gateway-doctor-") as folder:
        try:
            with anyio.fail_after(_TIMEOUT_S):
                sidecar = await open_sidecar(replace(settings, state_dir=Path(folder)), os.environ)
                models = await _configured_models(settings, sidecar)
        except TimeoutError:
            return [_failed(f"QMD did not answer within {_TIMEOUT_S:g} s.", None)]
        except QmdUnavailableError as error:
            return [_failed(error.message, error.remedy)]
        except OSError as error:
            return [_failed(f"QMD's configuration cannot be read: {error}.", None)]
        return [_works(sidecar), *_models(settings, sidecar, models)]


def _failed(cause: str, fix: str | None) -> Observation:
    """Returns a warning, not an error: the builtin index answers instead."""
    return finding.warning(
        f"{cause} The builtin index answers instead.",
        _KEY,
        fix=fix or "Try the command in a shell, or set backend to builtin.",
    )


def _works(sidecar: Sidecar) -> Observation:
    program = sidecar.program
    return finding.ok(f"QMD {program.version_text} works.", program.command.script)


async def _configured_models(settings: Settings, sidecar: Sidecar) -> Mapping[str, str]:
    """Returns the models that QMD uses. Raises QmdUnavailableError and OSError."""
    there = dataclasses.replace(sidecar, home=home_of(settings))
    return models_in(await read_document(there, timeout_s=_TIMEOUT_S), sidecar)


def _models(settings: Settings, sidecar: Sidecar, models: Mapping[str, str]) -> list[Observation]:
    own = home_of(settings).models
    directory = own if own.is_dir() else sidecar.home.models
    missing = missing_models(settings.qmd.search_mode, models, directory)
    if not missing:
        return []
    return [
        finding.warning(
            f"QMD searches by words only: {absent(missing)}.",
            own,
            fix="`memory-gateway qmd -- pull` fetches QMD's models.",
        )
    ]
