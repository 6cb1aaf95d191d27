"""Checks of what the gateway needs: disk, watches, the systemd unit, QMD, a provider with key and model, libraries."""

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

from backends.builtin.store.opening import vector_libraries
from backends.qmd.process import QmdUnavailableError, absent, missing_models
from backends.qmd.sidecar import Sidecar, home_of, models_in, open_sidecar, read_document
from config.paths import auth_profile_paths, home_dir
from config.runtime import PROC
from config.settings import Settings
from gateway import hook
from gateway.doctor import finding
from gateway.doctor.finding import Observation, Severity
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
from providers.choosing import Choice, choose
from providers.installing import install_command
from providers.local.models import configured_models, locate
from providers.local.models.cache import check_magic
from providers.provider_interface import ProviderCandidate, ProviderError
from providers.remote.credentials import load

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
        f"Hooks of clients showed nothing {silent:,} times: {counts['slow']:,} got no answer in time, "
        f"{counts['away']:,} found no gateway, {counts['broken']:,} got an answer that is none. "
        "The first after a pause starts one.",
        hook.folder(),
        fix="If it happens often, keep one running: `memory-gateway service install`. Remove the files *.missed "
        "there to count anew.",
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


_QMD_KEY: Final = "qmd.command"
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
        _QMD_KEY,
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


# --- The provider, its model and its libraries ----------------------------------------------------

_PROVIDER_KEY: Final = "provider"


def check_provider(settings: Settings) -> Iterator[Observation]:
    choice = choose(settings)
    if choice.primary is None:
        yield from _without(choice)
    else:
        yield _with(choice, choice.primary)
    yield from _fallback(choice, settings.search.fallback)
    paths = dict.fromkeys(auth_profile_paths(settings.state_dir, settings.agent_dir))
    for problem in load(tuple(paths)).problems:
        yield finding.warning(
            problem, fix="Let the chat gateway write its auth profiles again, or fix the file."
        )


def _without(choice: Choice) -> Iterator[Observation]:
    if choice.requested == "none":
        yield finding.ok(choice.reason, _PROVIDER_KEY)
        return
    named = choice.requested != "auto"
    severity: Severity = "warning" if named or choice.keys_in_vain else "note"
    yield finding.observe(severity, choice.reason, _PROVIDER_KEY, fix=choice.remedy)
    if not named:
        yield from map(_refused, choice.keys_in_vain[1:])


def _with(choice: Choice, primary: ProviderCandidate) -> Observation:
    if choice.fell_back is not None:
        return finding.warning(choice.reason, _PROVIDER_KEY, fix=choice.remedy)
    parts = (primary.provider, primary.model, primary.endpoint)
    who = ", ".join(part for part in parts if part)
    return finding.ok(f"{who}. {primary.reason}", _PROVIDER_KEY)


def _fallback(choice: Choice, name: str) -> Iterator[Observation]:
    """Warns of a configured fallback that could not be used."""
    for one in choice.candidates:
        if one.provider == name and not one.usable:
            yield _refused(one, "fallback")


def _refused(one: ProviderCandidate, place: str | None = None) -> Observation:
    return finding.warning(f"{one.provider} cannot be used: {one.reason}", place, fix=one.remedy)


_MODEL_KEY: Final = "local.modelPath"
_HEAD_BYTES: Final = 16


def check_model(settings: Settings) -> Iterator[Observation]:
    """Checks the local model; yields nothing unless local embeddings are configured."""
    if "local" not in {settings.search.provider, settings.search.fallback}:
        return
    models = configured_models(settings, os.environ)
    try:
        path = locate(models.reference, models.cache_dir)
        if path is not None:
            with path.open("rb") as file:
                check_magic(file.read(_HEAD_BYTES), str(path), path.suffix)
    except ProviderError as error:
        yield finding.warning(error.message, _MODEL_KEY, fix=error.remedy)
        return
    except OSError as error:
        yield finding.warning(
            f"The model cannot be read: {error.strerror}.",
            error.filename,
            fix="Give this user permission to read it (chmod u+r).",
        )
        return
    yield _absent(models.reference) if path is None else _present(path)


def _present(path: Path) -> Observation:
    size = path.stat().st_size / 1e6
    return finding.ok(f"The model is on this machine ({size:,.0f} MB).", path)


def _absent(reference: str) -> Observation:
    if reference.startswith(("hf:", "http://", "https://")):
        return finding.note(
            "The model is not on this machine; it is downloaded when it is first needed.",
            reference,
            fix="`memory-gateway models pull` downloads it now.",
        )
    return finding.warning(
        "The model file does not exist.",
        reference,
        fix=f"Correct {_MODEL_KEY}; `memory-gateway models list` names those that are there.",
    )


def check_libraries(settings: Settings) -> Iterator[Observation]:
    """Checks numpy, which vectors need, and two others, which make search fast and can replace each other.

    Without a provider of vectors, missing libraries do no harm.
    """
    vector = settings.search.store.vector
    if not vector.enabled:
        yield finding.ok(
            "Vector search is switched off in the configuration.", "store.vector.enabled"
        )
        return
    problems = vector_libraries(settings)
    named = vector.extension_path is not None
    if any(problems) and not named and choose(settings).primary is None:
        cause = "Libraries of vector search are missing; by keywords alone nothing needs them."
        yield finding.note(cause, fix=_installing())
        return
    if problems.sqlite_vec:
        yield finding.warning(
            problems.sqlite_vec,
            "store.vector.extensionPath" if named else None,
            fix="Correct the path, or remove the key: the package brings its own."
            if named
            else _installing(),
        )
    for problem in (problems.numpy, problems.simsimd):
        if problem:
            yield finding.warning(problem, fix=_installing())
    if not any(problems):
        yield finding.ok("sqlite-vec, numpy and SimSIMD can be loaded.")


def _installing() -> str:
    return f"`{install_command('vector')}` installs what is missing."
