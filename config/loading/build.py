"""Putting chosen values into typed settings, and telling which keys differ between two readings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from config import paths
from config.keys.kinds import Unresolved
from config.keys.table import SECTIONS
from config.keys.tree import Key, Section
from config.loading.resolve import Chosen, remembers_in_private_only
from config.paths import Directories
from config.settings import (
    AuthProfileRef,
    AuthSettings,
    ExtraPath,
    MemorySearchSettings,
    ModelProviderSettings,
    Origin,
    QmdSessionsSettings,
    QmdSettings,
    Settings,
    StoreSettings,
)

_StructT = TypeVar("_StructT", bound=msgspec.Struct)


def field_of(section: Section, key: Key) -> str | None:
    """Dotted attribute path below `Settings` that the key fills; None if it fills no single one."""
    if key.field == "":
        return None
    field = key.field or snake_case(key.path)
    return f"{section.field}.{field}" if section.field else field


def snake_case(path: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in path)


def default_settings(dirs: Directories) -> Settings:
    """What holds without any configuration."""
    state, agent_id = dirs.state_dir, dirs.agent_id
    export_dir = paths.qmd_export_dir(state, agent_id)
    return Settings(
        agent_id=agent_id,
        workspace=dirs.workspace,
        state_dir=state,
        agent_dir=paths.agent_dir(state, agent_id),
        sessions_dir=paths.sessions_dir(state, agent_id),
        config_path=None,
        search=MemorySearchSettings(
            store=StoreSettings(
                path=paths.index_path(state, agent_id),
                former_path=paths.former_index_path(state, agent_id),
            )
        ),
        qmd=QmdSettings(sessions=QmdSessionsSettings(export_dir=export_dir)),
    )


def build_settings(chosen: Mapping[str, Chosen], dirs: Directories) -> Settings:
    """The defaults with every chosen value in its field."""
    values: dict[str, Any] = {}
    for section in SECTIONS:
        for key in section.keys:
            field, found = field_of(section, key), chosen.get(section.documented(key))
            if field and found:
                values.update(_settled(field, key, found.value, dirs))
    if "search.store.path" in values:
        values["search.store.former_path"] = None
    values["search.local.model_path_is_default"] = "search.local.model_path" not in values
    values["search.sessions_in_private_only"] = remembers_in_private_only(chosen)
    values["model_providers"] = _model_providers(chosen.values(), dirs)
    values["auth"] = _auth(chosen.values(), dirs)
    return assign(default_settings(dirs), values)


def settings_of_notes(settings: Settings, folder: Path) -> Settings:
    """The same with a folder of Markdown as the whole memory, whatever the file says of places."""
    store = msgspec.structs.replace(
        settings.search.store, path=settings.state_dir / "index.sqlite", former_path=None
    )
    search = msgspec.structs.replace(
        settings.search,
        store=store,
        sources=("memory",),
        extra_paths=(ExtraPath(path=folder, raw=str(folder)),),
        sessions_in_private_only=False,
    )
    origin = Origin(kind="command-line", detail="--notes")
    places = ("workspace", "memorySearch.extraPaths", "memorySearch.store.path")
    return msgspec.structs.replace(
        settings,
        workspace=folder,
        notes_folder=folder,
        backend="builtin",
        search=search,
        origins={**settings.origins, **dict.fromkeys(places, origin)},
    )


def assign(target: _StructT, values: Mapping[str, Any]) -> _StructT:
    """A copy of `target` with the fields at these dotted paths replaced."""
    direct: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if rest:
            nested.setdefault(head, {})[rest] = value
        else:
            direct[head] = value
    for head, below in nested.items():
        direct[head] = assign(getattr(target, head), below)
    return msgspec.structs.replace(target, **direct)


def _settled(field: str, key: Key, value: Any, dirs: Directories) -> dict[str, Any]:
    if isinstance(value, Unresolved):
        return {f"{field}_problem": value.reason}
    return {field: key.kind.settle(value, dirs)}


def _model_providers(
    chosen: Iterable[Chosen], dirs: Directories
) -> dict[str, ModelProviderSettings]:
    fields: dict[str, dict[str, Any]] = {}
    for name, key, value in _named(chosen, "models.providers"):
        field = snake_case(key.path.partition(".")[2])
        fields.setdefault(name, {}).update(_settled(field, key, value, dirs))
    for values in fields.values():
        if problem := values.get("base_url_problem"):  # key and headers stay here as well
            values.pop("api_key", None)
            values.pop("headers", None)
            values["api_key_problem"] = problem
    return {name: ModelProviderSettings(**values) for name, values in fields.items()}


def _auth(chosen: Iterable[Chosen], dirs: Directories) -> AuthSettings:
    profiles: dict[str, dict[str, Any]] = {}
    order: dict[str, tuple[str, ...]] = {}
    for name, key, value in _named(chosen, "auth"):
        if key.path == "order.*":
            order[name] = key.kind.settle(value, dirs)
        else:
            profiles.setdefault(name, {})[key.path.rpartition(".")[2]] = value
    refs = {name: AuthProfileRef(**p) for name, p in profiles.items() if "provider" in p}
    return AuthSettings(order=order, profiles=refs)


def _named(chosen: Iterable[Chosen], section: str) -> Iterator[tuple[str, Key, Any]]:
    """Free name, key and value of what a section holds below free names.

    In both sections that have free names (`models.providers.*`, `auth.order.*`) they come third.
    """
    for item in chosen:
        if item.given and item.given.leaf.section.name == section:
            yield str(item.given.at[2]), item.given.leaf.key, item.value


def changed_keys(old: Settings, new: Settings) -> tuple[str, ...]:
    """Documented paths of the keys with another value, names of variables with another API key."""
    return (*_fields(old, new), *_free_names(old, new))


def _fields(old: Settings, new: Settings) -> Iterator[str]:
    for section in SECTIONS:
        for key in section.keys:
            field = field_of(section, key)
            if field and _value(old, field) != _value(new, field):
                yield section.documented(key)


def _value(settings: Settings, field: str) -> tuple[Any, Any]:
    """The value and, for a key that could not be read, why."""
    parent, _, name = f".{field}".rpartition(".")
    holder = attrgetter(parent[1:])(settings) if parent else settings
    return getattr(holder, name), getattr(holder, f"{name}_problem", None)


def _free_names(old: Settings, new: Settings) -> Iterator[str]:
    for path, field in (
        ("models.providers.", "model_providers"),
        ("auth.profiles.", "auth.profiles"),
        ("auth.order.", "auth.order"),
        ("", "environment_keys"),
    ):
        before: Mapping[str, Any] = attrgetter(field)(old)
        after: Mapping[str, Any] = attrgetter(field)(new)
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield f"{path}{name}"
