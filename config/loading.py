"""From a request to the immutable `Settings` of one agent: find, read, choose, check, build.

`load_settings` is what the floors above call. Agents are listed in two places, read in this order: the list
`agents.list[]`, and the map `agents.entries.<id>` of later releases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from config import paths
from config.errors import ConfigNotFoundError
from config.host_keys import OWN_ENTRY_PATH, is_own_entry, tolerates
from config.keys.kinds import Unresolved
from config.keys.tree import ANY_NAME, Given, Key, Section, build_tree, walk
from config.paths import Directories, claude_dir, default_workspace
from config.sections import FIELDS, OWN_FILE_SECTIONS, SECTIONS
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
from config.source.discover import FoundConfig, LoadRequest, discover, notes_folder
from config.source.environment import Variables, gather_variables
from config.source.located import KeyPath, Located, Reading, descend, render_path

_StructT = TypeVar("_StructT", bound=msgspec.Struct)
MAIN_AGENT = "main"

_MAX_LENGTH = 64


class ConfigFile(msgspec.Struct, frozen=True):
    """Every valid value at every place, and the listed agents. Empty without a file."""

    givens: tuple[Given, ...] = ()
    agents: tuple[AgentEntry, ...] = ()
    """The agents that the chat gateway lists."""
    in_own_entry: tuple[tuple[str, KeyPath], ...] = ()
    """Ids and paths of the single agents that our own entry configures."""

    @property
    def default_agent(self) -> str:
        """The first one marked as default, else the first one listed, else `main`."""
        marked = (entry for entry in self.agents if entry.is_default)
        first = next(marked, self.agents[0] if self.agents else None)
        return first.id if first else MAIN_AGENT

    def agent(self, agent_id: str) -> AgentEntry | None:
        return next((entry for entry in self.agents if entry.id == agent_id), None)

    def places(self, agent_id: str) -> tuple[KeyPath, ...]:
        """Returns the paths of this agent's own keys."""
        entry = self.agent(agent_id)
        in_own_entry = tuple(place for name, place in self.in_own_entry if name == agent_id)
        return (*in_own_entry, *(entry.prefixes if entry else ()))

    def places_of_others(self, agent_id: str) -> tuple[KeyPath, ...]:
        in_own_entry = tuple(place for name, place in self.in_own_entry if name != agent_id)
        listed = (e.prefixes for e in self.agents if e.id != agent_id)
        return (*in_own_entry, *(place for prefixes in listed for place in prefixes))


def read_content(
    root: Located | None, reading: Reading, sections: Sequence[Section] = SECTIONS
) -> ConfigFile:
    """Returns the content of the file. Raises `ConfigInvalidError` with every problem that it has."""
    if root is None:
        return ConfigFile()
    givens = tuple(walk(build_tree(sections), root, (), reading))
    agents = listed_agents(root, reading)
    reading.raise_problems()
    return ConfigFile(givens, agents, agents_in_own_entry(root))


class ConfigSurroundings(msgspec.Struct, frozen=True):
    """Everything but the agent's own keys that decides where its files are."""

    request: LoadRequest
    found: FoundConfig
    content: ConfigFile

    def directories(
        self, agent_id: str, chosen: Mapping[str, Chosen]
    ) -> tuple[Directories, SettingOrigin]:
        """Returns the directories, and the origin of the workspace.

        The workspace comes from the first of these that is given: the command line, the agent's own key,
        `agents.defaults.workspace` for the default agent, the built-in place.
        """
        is_default = agent_id == self.content.default_agent
        workspace = default_workspace(
            self.request.environment,
            home=self.found.home,
            state=self.found.state_dir,
            agent_id=agent_id,
            is_default=is_default,
        )
        dirs = Directories(
            home=self.found.home,
            cwd=self.request.cwd,
            state_dir=self.found.state_dir,
            workspace=workspace,
            agent_id=agent_id,
        )
        named = self._named_workspace(chosen, is_default=is_default)
        if named is None:
            return dirs, SettingOrigin(kind="default")
        return msgspec.structs.replace(dirs, workspace=dirs.resolve(named[0])), named[1]

    def _named_workspace(
        self, chosen: Mapping[str, Chosen], *, is_default: bool
    ) -> tuple[str, SettingOrigin] | None:
        if self.request.workspace is not None:
            origin = SettingOrigin(kind="command-line", detail="--workspace")
            return str(self.request.workspace), origin
        named = chosen.get("workspace")
        if named is None and is_default:
            named = chosen.get("agents.defaults.workspace")
        return (named.value, named.origin) if named else None

    def with_claude_code(self, settings: Settings, dirs: Directories) -> Settings:
        """Returns the settings with Claude Code's memory added to the extra paths, if that is asked for."""
        if not (settings.search.claude_code or self.request.claude_code):
            return settings
        own = claude_dir(self.request.environment, home=dirs.home, cwd=dirs.cwd)
        places: tuple[tuple[Path, str | None], ...] = (
            (own / "projects", "*/memory/**/*.md"),
            (own / "CLAUDE.md", None),
            (dirs.workspace / "CLAUDE.md", None),
        )
        extra = tuple(
            ExtraPath(path=path, pattern=pattern, raw=str(path), is_optional=True)
            for path, pattern in places
        )
        search = msgspec.structs.replace(
            settings.search,
            claude_code=True,
            extra_paths=(*settings.search.extra_paths, *extra),
        )
        return msgspec.structs.replace(settings, search=search, claude_projects=own / "projects")


_STORE_PATH = "store.path"


def refuse_shared_index(
    settings: Settings,
    chosen: Mapping[str, Chosen],
    surroundings: ConfigSurroundings,
    reading: Reading,
) -> None:
    """Raises `ConfigInvalidError` naming both agents. Agents without memory search do not count."""
    if not settings.search.enabled:
        return
    content = surroundings.content
    for other in content.agents:
        # Warnings about the other agent's keys are given by its own process.
        theirs = choose(content.givens, content.places(other.id), Reading({}))
        apply_rules(theirs, Reading({}))
        search = build_settings(theirs, surroundings.directories(other.id, theirs)[0]).search
        shared = _places(search.store) & _places(settings.search.store)
        if other.id != settings.agent_id and search.enabled and shared:
            given = (chosen.get(_STORE_PATH) or theirs[_STORE_PATH]).given
            assert given is not None
            message = (
                f"the agents {settings.agent_id!r} and {other.id!r} would share the index "
                f"{shared.pop()}; write {{agentId}} into the path"
            )
            reading.problem(given.at, given.node, message)
    reading.raise_problems()


def _places(store: StoreSettings) -> set[Path]:
    """Returns the paths, links resolved; also the former one, whose index would be taken from the other agent."""
    return {Path(os.path.realpath(one)) for one in (store.path, store.former_path or store.path)}


_DEFAULT = SettingOrigin(kind="default")


def load_settings(request: LoadRequest) -> Settings:
    """Returns the effective settings of the agent that the request is for.

    Without a configuration file everything is a default. Raises `ConfigInvalidError` with every
    problem of the file at once, `ConfigNotFoundError` for a named file that does not exist.
    """
    return load_found(request, discover(request))


def read_found(request: LoadRequest, found: FoundConfig) -> tuple[ConfigFile, Reading, Variables]:
    """Returns the file's content, the remarks about it and the variables. Raises `ConfigInvalidError`."""
    variables = gather_variables(request.environment, found.state_dir, found.root)
    file = found.root.source.path if found.root else None
    if found.is_ours:
        reading, sections = Reading(variables.values, file), OWN_FILE_SECTIONS
    else:
        reading, sections = Reading(variables.values, file, tolerates), SECTIONS
    return read_content(found.root, reading, sections), reading, variables


def load_found(request: LoadRequest, found: FoundConfig) -> Settings:
    """Returns the same as `load_settings` for a file that was read before. Raises `ConfigInvalidError`."""
    content, reading, variables = read_found(request, found)
    surroundings = ConfigSurroundings(request, found, content)
    agent_id = normalize_agent_id(request.agent_id or content.default_agent)
    chosen = choose(content.givens, content.places(agent_id), reading)
    apply_rules(chosen, reading)
    settings = _settle(surroundings, agent_id, chosen, variables)
    refuse_shared_index(settings, chosen, surroundings, reading)
    _warn_unlisted(content, agent_id, reading)
    if request.notes is not None:
        _warn_of_store(settings, chosen, reading)
        folder = notes_folder(request, found.home)
        settings = settings_of_notes(settings, folder, request.notes_origin)
    others = content.places_of_others(agent_id)
    used = (settings.search.provider, settings.search.fallback)
    warnings = reading.warnings(except_below=others, providers=used)
    return msgspec.structs.replace(settings, warnings=warnings)


def _settle(
    surroundings: ConfigSurroundings,
    agent_id: str,
    chosen: Mapping[str, Chosen],
    variables: Variables,
) -> Settings:
    dirs, workspace_origin = surroundings.directories(agent_id, chosen)
    found, keys, enabled = surroundings.found, variables.keys(), chosen.get("enabled")
    return msgspec.structs.replace(
        surroundings.with_claude_code(build_settings(chosen, dirs), dirs),
        workspace=dirs.workspace,
        enabled_key=render_path(enabled.given.at) if enabled and enabled.given else None,
        config_path=found.root.source.path if found.root else None,
        config_is_ours=found.is_ours,
        environment_keys=keys,
        origins={
            **dict(_key_origins(chosen)),
            **{name: variables.origin(name) for name in keys},
            "agentId": _agent_origin(surroundings, agent_id),
            "configPath": found.config_origin,
            "stateDir": found.state_origin,
            "workspace": workspace_origin,
        },
    )


def _key_origins(chosen: Mapping[str, Chosen]) -> Iterator[tuple[str, SettingOrigin]]:
    """Yields an origin for every key that fills a field, given or not, and for keys below free names."""
    for name in FIELDS:
        yield name, chosen[name].origin if name in chosen else _DEFAULT
    for name, item in chosen.items():
        if item.given and ANY_NAME in item.given.leaf.key.path:
            yield name, item.origin


def _agent_origin(surroundings: ConfigSurroundings, agent_id: str) -> SettingOrigin:
    if surroundings.request.agent_id:
        return SettingOrigin(kind="command-line", detail="--agent")
    entry = surroundings.content.agent(agent_id)
    return SettingOrigin(kind="file", detail=render_path(entry.prefixes[0])) if entry else _DEFAULT


def _warn_of_store(settings: Settings, chosen: Mapping[str, Chosen], reading: Reading) -> None:
    driver = chosen.get("store.driver")
    if settings.search.store.driver != "sqlite" and driver is not None and driver.given is not None:
        message = "the index of --notes is always a file of its own; this store does not count"
        reading.warn(driver.given.at, driver.given.node, message)


def _warn_unlisted(content: ConfigFile, agent_id: str, reading: Reading) -> None:
    if content.agents and agent_id != MAIN_AGENT and content.agent(agent_id) is None:
        listed = ", ".join(entry.id for entry in content.agents)
        message = f"the agent {agent_id!r} is not listed; the listed ones are {listed}"
        reading.warn(("agents", "list"), None, message)


def refuse_unknown_names(
    request: LoadRequest, settings: Settings, is_known: Callable[[Settings], bool]
) -> None:
    """Refuses a workspace that does not exist and an agent that is not known; creates nothing.

    `is_known`: whether a missing directory is known as a workspace, whose disk may be away.
    Raises `ConfigNotFoundError`, which names existing ones.
    """
    if request.notes is not None:
        return  # the folder was checked when it was discovered
    is_missing = request.workspace is not None and not settings.workspace.is_dir()
    if is_missing and (paths.exists(settings.workspace) or not is_known(settings)):
        raise _no_workspace(request, settings)
    if request.agent_id is not None and request.workspace is None:
        _refuse_unknown_agent(request, settings)


def _no_workspace(request: LoadRequest, settings: Settings) -> ConfigNotFoundError:
    usual = load_settings(msgspec.structs.replace(request, workspace=None)).workspace
    there = "is not a directory" if paths.exists(settings.workspace) else "does not exist"
    known = (
        f"The workspace of agent {settings.agent_id} is {usual}."
        if usual.is_dir()
        else "Create it first if it is meant to be new."
    )
    return ConfigNotFoundError(
        f"The workspace {settings.workspace}, which --workspace names, {there}.",
        remedy=f"Correct --workspace. {known}",
    )


def _refuse_unknown_agent(request: LoadRequest, settings: Settings) -> None:
    found = discover(request)
    variables = gather_variables(request.environment, found.state_dir, found.root)
    root = None if found.is_ours else found.root
    content = read_content(root, Reading(variables.values, tolerates=tolerates))
    listed = {entry.id for entry in content.agents} | {name for name, _ in content.in_own_entry}
    agent_id = settings.agent_id
    if agent_id in listed or agent_id == content.default_agent:
        return
    places = (settings.workspace, settings.agent_dir.parent, settings.search.store.path)
    if any(paths.exists(place) for place in places):
        return
    known = sorted({content.default_agent, *listed, *_with_directories(settings.state_dir)})
    raise ConfigNotFoundError(
        f"There is no agent {agent_id!r}: neither the configuration nor {settings.state_dir} knows it.",
        remedy=f"The known agents are {', '.join(known)}. For a new agent, give its --workspace as well.",
    )


def _with_directories(state: Path) -> set[str]:
    try:
        with os.scandir(state / "agents") as entries:
            return {entry.name for entry in entries if entry.is_dir()}
    except OSError:
        return set()


class AgentEntry(msgspec.Struct, frozen=True):
    id: str
    """Normalised."""
    prefixes: tuple[KeyPath, ...]
    """The paths of its own keys, the documented one first."""
    is_default: bool = False


def normalize_agent_id(text: str) -> str:
    """Returns the id in lower case, with one dash for each run of characters other than `a-z0-9_-`; at most 64 long.

    `main` if nothing is left.
    """
    lowered = text.strip().lower()
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", lowered):
        return lowered
    return re.sub(r"[^a-z0-9_-]+", "-", lowered).strip("-")[:_MAX_LENGTH] or MAIN_AGENT


def listed_agents(root: Located, reading: Reading) -> tuple[AgentEntry, ...]:
    """Returns the agents in the order of the file; if two have the same id, the first counts."""
    found: dict[str, AgentEntry] = {}
    for place in (_from_list(root), _from_map(root)):
        seen: set[str] = set()
        for agent_id, prefix, node in place:
            if agent_id in seen:
                reading.warn(
                    prefix, node, f"is ignored: the agent {agent_id!r} is already listed above"
                )
                continue
            seen.add(agent_id)
            found[agent_id] = _joined(found.get(agent_id), agent_id, prefix, node)
    return tuple(found.values())


def agents_in_own_entry(root: Located) -> tuple[tuple[str, KeyPath], ...]:
    """Returns ids and paths of the agents that our own entry configures; they need not be listed anywhere."""
    path = (*OWN_ENTRY_PATH, "agents")
    node = descend(root, *path)
    members = node.value if node and isinstance(node.value, dict) else {}
    return tuple((normalize_agent_id(name), (*path, name)) for name in members)


def _joined(known: AgentEntry | None, agent_id: str, prefix: KeyPath, node: Located) -> AgentEntry:
    marker = descend(node, "default")
    is_default = marker is not None and marker.value is True
    if known is None:
        return AgentEntry(agent_id, (prefix,), is_default)
    return AgentEntry(agent_id, (*known.prefixes, prefix), known.is_default or is_default)


def _from_list(root: Located) -> list[tuple[str, KeyPath, Located]]:
    node = descend(root, "agents", "list")
    items = node.value if node and isinstance(node.value, list) else []
    ids = [(index, item, descend(item, "id")) for index, item in enumerate(items)]
    return [
        (normalize_agent_id(name.value), ("agents", "list", index), item)
        for index, item, name in ids
        if name and isinstance(name.value, str)
    ]


def _from_map(root: Located) -> list[tuple[str, KeyPath, Located]]:
    node = descend(root, "agents", "entries")
    members = node.value if node and isinstance(node.value, dict) else {}
    return [
        (normalize_agent_id(name), ("agents", "entries", name), item)
        for name, item in members.items()
        if isinstance(item.value, dict)
    ]


_AGENT_PLACES = (("agents", "list"), ("agents", "entries"), (*OWN_ENTRY_PATH, "agents"))
# --- Choosing one value for each key, and building. Pure. ---

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
