"""Builds typed settings from all the places that give keys. Pure.

One value is chosen for each key, rules connect some of them, and two readings are compared key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from config import paths
from config.host_keys import OWN_ENTRY_PATH, is_own_entry
from config.keys.kinds import Unresolved
from config.keys.tree import ANY_NAME, Given, Key
from config.paths import Directories
from config.sections import FIELDS
from config.settings import (
    AuthProfileRef,
    AuthSettings,
    ChunkingSettings,
    ExtraPath,
    HybridSettings,
    MemorySearchSettings,
    ModelProviderSettings,
    QmdSessionsSettings,
    QmdSettings,
    SettingOrigin,
    Settings,
    StoreSettings,
)
from config.source.located import KeyPath, Reading, render_path

_AGENT_PLACES = (("agents", "list"), ("agents", "entries"), (*OWN_ENTRY_PATH, "agents"))
_StructT = TypeVar("_StructT", bound=msgspec.Struct)
_VECTOR_WEIGHT = "query.hybrid.vectorWeight"
_TEXT_WEIGHT = "query.hybrid.textWeight"
_TOKENS = "chunking.tokens"
_OVERLAP = "chunking.overlap"
_SOURCES = "sources"
_SESSION_MEMORY = "experimental.sessionMemory"
_ADDRESS = "remote.baseUrl"
_KEY = "remote.apiKey"
_HEADERS = "remote.headers"
_REMEMBER = "rememberAcrossConversations"
_INPUT_TYPE = "inputType"
_INPUT_TYPES = ("queryInputType", "documentInputType")
_SUM_TOLERANCE = 1e-9


class Chosen(msgspec.Struct, frozen=True):
    """The value that applies to a key, before paths are made absolute."""

    value: Any
    origin: SettingOrigin
    given: Given | None = None
    """None for a value that a rule produced."""


def choose(givens: Iterable[Given], own: Sequence[KeyPath], reading: Reading) -> dict[str, Chosen]:
    """Returns the value of each key, by its documented path, for the agent whose own keys are at `own`.

    Keys below a free name (`models.providers.openai.apiKey`) appear under their full path.
    """
    levels: dict[str, tuple[list[Given], list[Given]]] = {}
    for given in givens:
        level = _level(given.at, own)
        if level is not None:
            levels.setdefault(_name(given), ([], []))[level].append(given)
    return {name: _choose_one(*given, reading) for name, given in levels.items()}


def _level(at: KeyPath, own: Sequence[KeyPath]) -> int | None:
    """Returns 0 for keys of all agents, 1 for the agent's own, None for those of another agent."""
    if not any(at[: len(place)] == place for place in _AGENT_PLACES):
        return 0
    return 1 if any(at[: len(prefix)] == prefix for prefix in own) else None


def _name(given: Given) -> str:
    if ANY_NAME in given.leaf.key.path:
        return render_path(given.at)
    return given.leaf.section.documented(given.leaf.key.path)


def _choose_one(general: list[Given], special: list[Given], reading: Reading) -> Chosen:
    base, own = _best(general, reading), _best(special, reading)
    winner = own or base
    assert winner is not None
    if base and own and winner.leaf.key.merge == "concatenate":
        both = f"{_place(base, reading)}; {_place(own, reading)}"
        return Chosen(base.value + own.value, SettingOrigin(kind="file", detail=both), winner)
    return Chosen(winner.value, SettingOrigin(kind="file", detail=_place(winner, reading)), winner)


def _best(givens: list[Given], reading: Reading) -> Given | None:
    best = min(givens, key=lambda given: given.leaf.rank, default=None)
    if best is None or is_own_entry(best.at):
        return best
    for given in givens:
        if given is not best and given.value != best.value:
            winner = reading.place(best.at, best.node)
            reading.warn(given.at, given.node, f"is ignored, because {winner} is set too")
    return best


def _place(given: Given, reading: Reading) -> str:
    """Returns `agents.defaults.memorySearch.provider, line 12`, with the variables that filled the value."""
    names = reading.variables.get(given.at, ())
    filled = "".join(f", from ${{{name}}}" for name in names)
    return reading.place(given.at, given.node) + filled


_Values = dict[str, Chosen]


def apply_rules(values: _Values, reading: Reading) -> None:
    """Applies every rule, with a warning where a rule overrides what the file says."""
    _spread_input_type(values)
    _normalise_weights(values, reading)
    _limit_overlap(values, reading)
    _choose_sources(values, reading)
    _withhold_keys(values)


def _spread_input_type(values: _Values) -> None:
    shared = values.pop(_INPUT_TYPE, None)
    if shared is not None:
        for name in _INPUT_TYPES:
            values.setdefault(name, shared)


def _normalise_weights(values: _Values, reading: Reading) -> None:
    """Divides both by their sum; if both are 0, the defaults apply."""
    defaults = HybridSettings()
    vector = _value(values, _VECTOR_WEIGHT, defaults.vector_weight)
    text = _value(values, _TEXT_WEIGHT, defaults.text_weight)
    total = vector + text
    if abs(total - 1) <= _SUM_TOLERANCE:
        return
    if total == 0:
        _warn(values, _VECTOR_WEIGHT, "and textWeight are both 0, so the defaults apply", reading)
        del values[_VECTOR_WEIGHT], values[_TEXT_WEIGHT]
        return
    _derive(values, _VECTOR_WEIGHT, vector / total, "divided by the sum of both weights")
    _derive(values, _TEXT_WEIGHT, text / total, "divided by the sum of both weights")


def _limit_overlap(values: _Values, reading: Reading) -> None:
    """Limits the overlap to one token less than a chunk has."""
    defaults = ChunkingSettings()
    tokens = _value(values, _TOKENS, defaults.tokens)
    overlap = _value(values, _OVERLAP, defaults.overlap)
    if overlap < tokens:
        return
    if _OVERLAP in values:
        message = (
            f"{overlap} must be less than chunking.tokens ({tokens}); {tokens - 1} is used instead"
        )
        _warn(values, _OVERLAP, message, reading)
    _derive(values, _OVERLAP, tokens - 1, "less than chunking.tokens")


def _choose_sources(values: _Values, reading: Reading) -> None:
    """Includes transcripts only if one of the two keys that allow them does."""
    remembers = _value(values, _REMEMBER, default=False)
    sources = _value(values, _SOURCES, None)
    if sources is None:
        if remembers:
            origin = SettingOrigin(kind="derived", detail="with rememberAcrossConversations")
            values[_SOURCES] = Chosen(("memory", "sessions"), origin)
        return
    allowed = remembers or _value(values, _SESSION_MEMORY, default=False)
    if "sessions" in sources and not allowed:
        message = '"sessions" is left out: it needs experimental.sessionMemory: true'
        _warn(values, _SOURCES, message, reading)
    kept = tuple(source for source in sources if source != "sessions" or allowed)
    if remembers and "sessions" not in kept:
        _derive(
            values,
            _SOURCES,
            (*(kept or ("memory",)), "sessions"),
            "with rememberAcrossConversations",
        )
    else:
        values[_SOURCES] = msgspec.structs.replace(values[_SOURCES], value=kept or ("memory",))


def remembers_in_private_only(values: Mapping[str, Chosen]) -> bool:
    """Returns whether transcripts are included only because of `rememberAcrossConversations`."""
    if not _value(values, _REMEMBER, default=False):
        return False
    sources = values.get(_SOURCES)
    named = sources is not None and sources.given is not None and "sessions" in sources.given.value
    return not (named and _value(values, _SESSION_MEMORY, default=False))


def _withhold_keys(values: _Values) -> None:
    """Withholds key and headers if their address cannot be read: the default address is another one."""
    address = values.get(_ADDRESS)
    if address is not None and isinstance(address.value, Unresolved):
        del values[_ADDRESS]
        values.pop(_HEADERS, None)
        values[_KEY] = address


def _value(values: Mapping[str, Chosen], name: str, default: object) -> Any:
    return values[name].value if name in values else default


def _derive(values: _Values, name: str, value: object, how: str) -> None:
    known = values.get(name)
    if known is None:
        values[name] = Chosen(value, SettingOrigin(kind="derived", detail=how))
        return
    origin = SettingOrigin(kind=known.origin.kind, detail=f"{known.origin.detail}, {how}")
    values[name] = msgspec.structs.replace(known, value=value, origin=origin)


def _warn(values: _Values, name: str, message: str, reading: Reading) -> None:
    given = values[name].given
    assert given is not None
    reading.warn(given.at, given.node, message)


def snake_case(path: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in path)


def default_settings(dirs: Directories) -> Settings:
    """Returns the settings without any configuration."""
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
    """Returns the defaults with every chosen value in its field."""
    values: dict[str, object] = {}
    for name, key in FIELDS.items():
        if name in chosen:
            values.update(_settled(key.field, key, chosen[name].value, dirs))
    if "search.store.path" in values:
        values["search.store.former_path"] = None
    values["search.sessions_in_private_only"] = remembers_in_private_only(chosen)
    values["model_providers"] = _model_providers(chosen.values(), dirs)
    values["auth"] = _auth(chosen.values(), dirs)
    return assign(default_settings(dirs), values)


def settings_of_notes(settings: Settings, folder: Path, origin: SettingOrigin) -> Settings:
    """Returns the settings with a folder of Markdown as the whole memory, whatever places the file names."""
    store = StoreSettings(
        path=settings.state_dir / paths.NOTES_INDEX, vector=settings.search.store.vector
    )
    search = msgspec.structs.replace(
        settings.search,
        store=store,
        sources=("memory",),
        extra_paths=(ExtraPath(path=folder, raw=str(folder)),),
        sessions_in_private_only=False,
    )
    places = ["workspace", "extraPaths", "sources", "backend"]
    places += [
        name
        for name in settings.origins
        if name.startswith("store.") and not name.startswith("store.vector.")
    ]
    return msgspec.structs.replace(
        settings,
        workspace=folder,
        notes_folder=folder,
        backend="builtin",
        search=search,
        origins={**settings.origins, **dict.fromkeys(places, origin)},
    )


def assign(target: _StructT, values: Mapping[str, object]) -> _StructT:
    """Returns a copy of `target` with the fields at these dotted paths replaced."""
    direct: dict[str, object] = {}
    nested: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if rest:
            nested.setdefault(head, {})[rest] = value
        else:
            direct[head] = value
    for head, below in nested.items():
        direct[head] = assign(getattr(target, head), below)
    return msgspec.structs.replace(target, **direct)


def _settled(field: str, key: Key, value: object, dirs: Directories) -> dict[str, object]:
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


def _named(chosen: Iterable[Chosen], section: str) -> Iterator[tuple[str, Key, object]]:
    """Yields the free name, the key and the value of everything that a section has below free names.

    In both sections that have free names (`models.providers.*`, `auth.order.*`) the name is the third in the path.
    """
    for item in chosen:
        if item.given and item.given.leaf.section.name == section:
            yield str(item.given.at[2]), item.given.leaf.key, item.value


def changed_keys(old: Settings, new: Settings) -> tuple[str, ...]:
    """Returns the documented paths of keys with another value, and the names of variables with another API key."""
    fields = (
        name
        for name, key in FIELDS.items()
        if _value_of(old, key.field) != _value_of(new, key.field)
    )
    return (*fields, *_free_names(old, new))


def _value_of(settings: Settings, field: str) -> tuple[object, object]:
    """Returns the value and, for a key that could not be read, the reason."""
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
        before: Mapping[str, object] = attrgetter(field)(old)
        after: Mapping[str, object] = attrgetter(field)(new)
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield f"{path}{name}"
