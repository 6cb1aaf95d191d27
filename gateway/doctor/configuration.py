"""Checks of the configuration, and of who can read and write the files and directories it names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

from backends.builtin.store.opening import index_file, is_current
from backends.builtin.syncing.surveying import missing_notes
from backends.files.roots import MemoryRoots
from backends.files.scan import ScanResult, scan
from backends.interface import IndexUnavailableError
from config.errors import ConfigInvalidError, MemoryGatewayError
from config.host_keys import HOST_RELEASE, switches
from config.migration import find_moves, is_of_today
from config.paths import auth_profile_paths
from config.runtime.files import denial_of
from config.settings import ConfigWarning, Settings
from config.source.discover import resolve_includes
from config.source.json5 import read_json5
from config.source.located import render_path
from gateway.doctor import finding
from gateway.doctor.finding import Observation


def explain_failure(error: MemoryGatewayError) -> Iterator[Observation]:
    """Yields one finding for each problem that keeps the settings from being read."""
    if not isinstance(error, ConfigInvalidError):
        yield finding.error(error.message, fix=error.remedy)
        return
    for problem in error.problems:
        cause = ": ".join(part for part in (problem.path, problem.message) if part)
        yield finding.error(cause, _place(problem.file, problem.line), fix=error.remedy)


def check_configuration(settings: Settings) -> Iterator[Observation]:
    path = str(settings.config_path) if settings.config_path else None
    cause = (
        "It can be read." if path else "There is no openclaw.json; everything is at its default."
    )
    yield finding.ok(cause, path)
    for switch in switches(settings):
        yield finding.note(switch.reason)
    yield from _refused_by_host(settings)
    yield from (_explain_warning(one, path) for one in settings.warnings)


def _refused_by_host(settings: Settings) -> Iterator[Observation]:
    """Yields the keys that today's OpenClaw refuses: as warnings, or as notes if the file is of an older release."""
    if settings.config_path is None or settings.config_is_ours:
        return
    try:
        root = resolve_includes(read_json5(settings.config_path))
        moves = find_moves(root, os.environ)
    except (MemoryGatewayError, FileNotFoundError):
        return  # it was read a moment ago, and the next look will say what is wrong with it
    for move in moves:
        where = (
            f"it belongs at {render_path(move.to)}" if move.to else f"leave it out: {move.reason}"
        )
        yield finding.observe(
            "warning" if is_of_today(root) else "note",
            f"OpenClaw {HOST_RELEASE} refuses a file with {move.place}; {where}",
            _place(str(move.node.source.path), move.node.line),
            fix="`memory-gateway config --migrate` prints the moved file, with --write it replaces it.",
        )


def _explain_warning(warning: ConfigWarning, path: str | None) -> Observation:
    return finding.warning(
        f"{warning.path}: {warning.message}",
        _place(warning.file or path, warning.line),
        fix="Correct or remove the key; `memory-gateway config` shows what is in force.",
    )


def _place(file: str | None, line: int | None) -> str | None:
    return f"{file}:{line}" if file and line else file


_OTHERS_WRITE: Final = 0o022
_OTHERS: Final = 0o077
_SHOWN_SKIPPED: Final = 5


class _Directory(NamedTuple):
    what: str
    path: Path
    key: str
    """The key or option that sets another place."""


def check_places(settings: Settings) -> Iterator[Observation]:
    """Checks the state directory, the directory of the index, the workspace and the files in it."""
    store = settings.search.store.path
    own = (
        _Directory("The state directory", settings.state_dir, "--state-dir"),
        _Directory("The directory of the index", store.parent, "store.path"),
    )
    for one in own:
        yield from _check_own(one)
    yield from _check_file_of_ours(index_file(settings))
    away = tuple(_missing_notes(settings))
    yield from away
    if not away or _is_directory(settings.workspace):
        yield from _check_workspace(settings)


def _check_own(one: _Directory) -> Iterator[Observation]:
    """Checks a directory that the gateway has to write to."""
    there = next(path for path in (one.path, *one.path.parents) if os.path.lexists(path))
    if _is_directory(there) and _may(there, os.R_OK | os.W_OK | os.X_OK):
        yield from _judge_mode(one, there)
        return
    what = "cannot be written" if there == one.path else f"cannot be created in {there}"
    if not _is_directory(there) and denial_of(there) is None:
        what = f"cannot be made: {there} is not a directory"
    yield finding.error(
        f"{one.what} {what}.",
        one.path,
        fix=_fix(there, os.R_OK | os.W_OK, f"choose another place: {one.key}."),
    )


def _fix(path: Path, wanted: int, otherwise: str) -> str:
    """Returns how this user gets access to the path, and what to do instead."""
    denial = denial_of(path, wanted)
    if denial is None:
        return f"Give this user permission (chown, chmod), or {otherwise}"
    return f"{denial}: {denial.remedy}; or {otherwise}"


def _judge_mode(one: _Directory, there: Path) -> Iterator[Observation]:
    mode = stat.S_IMODE(there.stat().st_mode)
    if there == one.path and mode & _OTHERS_WRITE:
        yield finding.warning(
            f"{one.what} can be written to by other users (mode {mode:03o}).",
            one.path,
            fix=f"chmod go-w {quote(str(one.path))}",
        )
        return
    cause = "can be read and written" if there == one.path else "will be created at the first start"
    yield finding.ok(f"{one.what} {cause}.", one.path)


def _check_file_of_ours(index: Path) -> Iterator[Observation]:
    if not os.path.lexists(index):
        return
    if not _may(index, os.R_OK | os.W_OK):
        yield finding.error(
            "The index cannot be read or written.",
            index,
            fix=_fix(index, os.R_OK | os.W_OK, "delete it: it will be rebuilt."),
        )
        return
    yield from _open_to_others(index, "The index holds the text of the memory")


def _open_to_others(path: Path, what: str) -> Iterator[Observation]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        yield finding.warning(
            f"{what}, and other users can open it (mode {mode:03o}).",
            path,
            fix=f"chmod 600 {quote(str(path))}",
        )


def _missing_notes(settings: Settings) -> Iterator[Observation]:
    """Yields places whose notes were indexed and are missing now, such as an empty mount point."""
    try:
        missing = missing_notes(settings) if is_current(settings) else ()
    except (IndexUnavailableError, OSError):
        return  # the check of the index says what is wrong with it
    for one in missing:
        if one.remedy:
            continue  # the check of the workspace reports what may not be read
        yield finding.warning(
            one.reason[:1].upper() + one.reason[1:],
            one.place,
            fix="Mount its disk, or put it back; if it was deleted on purpose: memory-gateway index --force",
        )


def _check_workspace(settings: Settings) -> Iterator[Observation]:
    workspace = settings.workspace
    place = str(workspace)
    if settings.notes_folder is None:
        what, correct = "The workspace", "correct agents.defaults.workspace or --workspace"
    else:
        what, correct = "The folder of notes", "correct --notes"
    correct += ", or name a folder of notes: memory-gateway setup."
    if not _is_directory(workspace) or not _may(workspace, os.R_OK | os.X_OK):
        there = os.path.lexists(workspace) or denial_of(workspace) is not None
        yield finding.observe(
            "error" if there else "warning",
            f"{what} {'cannot be read' if there else 'does not exist'}.",
            place,
            fix=_fix(workspace, os.R_OK, correct) if there else f"Create it, or {correct}",
        )
        return
    roots = MemoryRoots.of(settings)
    found = scan(roots)
    unreadable = [
        _unreadable(workspace / one.path)
        for one in found.files
        if not _may(workspace / one.path, os.R_OK)
    ]
    unreadable += [_unreadable(workspace / one.path, one.reason) for one in found.failed_dirs]
    yield from unreadable
    for path in found.missing:
        yield finding.note(
            "This extra path does not exist (yet).",
            path,
            fix="Create it, or remove it from extraPaths.",
        )
    yield from _left_out(found)
    if not unreadable:
        yield finding.ok(f"{what} can be read; {_counts(found)}.", place)


def _counts(found: ScanResult) -> str:
    """Returns `5 files of memory are in it, 64 in extraPaths`."""
    elsewhere = sum(one.path.startswith("../") for one in found.files)
    inside = len(found.files) - elsewhere
    text = f"{inside:,} {'file of memory is' if inside == 1 else 'files of memory are'} in it"
    return f"{text}, {elsewhere:,} elsewhere (extraPaths)" if elsewhere else text


def _left_out(found: ScanResult) -> Iterator[Observation]:
    if not found.skipped_count:
        return
    shown = found.skipped[:_SHOWN_SKIPPED]
    names = "; ".join(f"{one.path}: {one.reason}" for one in shown)
    more = found.skipped_count - len(shown)
    yield finding.note(
        f"Not indexed: {names}{f'; and {more:,} more' if more else ''}.",
        fix="`memory-gateway status` lists what is left out." if more else None,
    )


def _unreadable(path: Path, reason: str = "") -> Observation:
    return finding.warning(
        "This cannot be read: it is not searched, or only as it was indexed.",
        f"{path} ({reason})" if reason else path,
        fix=_fix(path, os.R_OK, "leave it out of the memory."),
    )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except PermissionError:
        return False


def _may(path: Path, wanted: int) -> bool:
    return os.access(path, wanted, effective_ids=True)


def check_secrets(settings: Settings) -> Iterator[Observation]:
    """Checks that files with keys are private; yields nothing if all are."""
    for path in dict.fromkeys(_files_with_keys(settings)):
        with suppress(OSError):
            yield from _open_to_others(path, "This file holds keys")


def _holds_password(url: str) -> bool:
    role = url.partition("://")[2].rpartition("@")[0]
    return ":" in role or "password" in url


def _files_with_keys(settings: Settings) -> Iterator[Path]:
    yield settings.state_dir / ".env"
    yield from auth_profile_paths(settings.state_dir, settings.agent_dir)
    url = settings.search.store.url
    keys = [settings.search.remote.api_key, url and _holds_password(url.reveal())]
    keys += [one.api_key for one in settings.model_providers.values()]
    if settings.config_path and any(keys):
        yield settings.config_path
