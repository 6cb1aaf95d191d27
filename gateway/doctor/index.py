"""Whether the index file is ours, whole and free. Blocks for some seconds at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from backends.builtin.storage.inspecting import IndexState, inspect_index
from config.settings import Settings
from gateway.doctor.finding import Finding

_TIMEOUT_S: Final = 3.0
_REBUILD: Final = "Delete it, or let the next start set it aside: it is rebuilt from Markdown."


def check_index(settings: Settings) -> Iterator[Finding]:
    path = settings.search.store.path
    state = inspect_index(path, timeout_s=_TIMEOUT_S)
    yield _explain(state, str(path))


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
