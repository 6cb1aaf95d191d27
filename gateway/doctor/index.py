"""Whether the index file is ours, whole and free, and where OpenClaw lets it be. Blocks for some seconds."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backends.builtin.storage.inspecting import IndexState, inspect_index
from backends.builtin.storage.moving import is_movable, present_path
from config.settings import Settings, StoreSettings
from gateway.doctor.finding import Finding

_TIMEOUT_S: Final = 3.0
_CLAIMED: Final = re.compile(r"[a-z0-9_-]+(\.retry-.*)?\.sqlite\Z", re.IGNORECASE)
_REBUILD: Final = "Delete it, or let the next start set it aside: it is rebuilt from Markdown."


def check_index(settings: Settings) -> Iterator[Finding]:
    store = settings.search.store
    path = present_path(store.path, store.former_path)
    state = inspect_index(path, timeout_s=_TIMEOUT_S)
    yield _explain(state, str(path))
    yield from check_names(settings, path)


def check_names(settings: Settings, used: Path) -> Iterator[Finding]:
    """Files of ours in the state directory that OpenClaw 2026.9 takes for its own former index.

    It looks there for `<agent>.sqlite` and `<agent>.retry-*.sqlite`, wants to import what it finds, and
    does not start when it cannot.
    """
    folder = settings.state_dir / "memory"
    names = {used} if used.parent == folder else set()
    names |= {folder / f"{settings.agent_id}.sqlite"}
    names |= set(folder.glob(f"{glob.escape(settings.agent_id)}.retry-*.sqlite"))
    for path in sorted(names):
        if not _CLAIMED.match(path.name) or not (path == used or is_movable(path)):
            continue
        yield Finding(
            check="index",
            severity="warning",
            cause="OpenClaw 2026.9 takes a file of this name for its own former index, and does not start.",
            place=str(path),
            fix=_remedy(path, used, settings.search.store),
        )


def _remedy(path: Path, used: Path, store: StoreSettings) -> str:
    if path == store.former_path:
        return "Start the gateway once (or run `memory-gateway status`): it moves the file."
    if path != used:
        return f"It is an older index, or a copy that OpenClaw made; this gateway does not use it: rm {path}"
    return "Remove memorySearch.store.path, or let it name a file outside of this directory."


def _explain(state: IndexState, place: str) -> Finding:
    if state.kind in {"foreign", "newer"}:
        owner = "another program" if state.kind == "foreign" else "a later release of this one"
        return Finding(
            check="index",
            severity="warning",
            cause=f"The file belongs to {owner} and is left alone; a sibling of it is used.",
            place=place,
            fix="Set memorySearch.store.path to a place of its own.",
        )
    if state.is_locked:
        return Finding(
            check="index",
            severity="error",
            cause=state.problem,
            place=place,
            fix=f"Find the process (fuser {place}) and end it, if it is not a gateway at work.",
        )
    if state.problem:
        return Finding(
            check="index",
            severity="error",
            cause=state.problem,
            place=place,
            fix=state.remedy or _REBUILD,
        )
    return Finding(check="index", severity="ok", cause=_soundness(state), place=place)


def _soundness(state: IndexState) -> str:
    if state.kind == "absent":
        return "There is no index yet; the first start makes one."
    if state.kind == "older":
        return "It is of an earlier release, and the next start rebuilds it."
    return (
        "It is whole." if state.was_checked else "It can be used; it is too large to be read now."
    )
