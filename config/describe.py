"""The settings for people: effective values with their origins, and the reference of all keys. Shows no secret."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from config.keys.kinds import ApiKey, Headers, WebAddress
from config.keys.tree import OWN_ENTRY, Key, Section
from config.loading.load import load_settings
from config.secrets import MASK
from config.sections import SECTIONS
from config.settings import SettingOrigin, Settings
from config.source.discover import LoadRequest
from config.source.located import KeyPath, render_path


class Row(msgspec.Struct, frozen=True):
    """One effective value."""

    path: str
    """Documented key path, without the agent part."""
    value: object
    """JSON-ready, secrets masked."""
    origin: SettingOrigin

    @property
    def value_text(self) -> str:
        if isinstance(self.value, str):
            return self.value
        return "–" if self.value is None else msgspec.json.encode(self.value).decode()

    @property
    def origin_text(self) -> str:
        return ": ".join(part for part in (self.origin.kind, self.origin.detail) if part)


def describe_rows(settings: Settings) -> tuple[Row, ...]:
    """One row for every key, identity first, in the order of the documentation."""
    return (*_identity(settings), *_keys(settings), *_free_names(settings), *_variables(settings))


def rows_of(rows: Sequence[Row], key: str) -> tuple[Row, ...]:
    """The row of a key and those below it, given by any of its paths; else those with this text in their path.

    Empty if there is none.
    """
    wanted = short_name(key)
    found = tuple(row for row in rows if f"{row.path}.".startswith(f"{wanted}."))
    return found or tuple(row for row in rows if wanted.lower() in row.path.lower())


def nearest_path(rows: Sequence[Row], key: str) -> str | None:
    """The documented path that an unknown one probably means."""
    wanted, paths = short_name(key), [row.path for row in rows]
    deeper = (path for path in paths if path.endswith(f".{wanted}"))
    return next(iter(difflib.get_close_matches(wanted, paths, n=1)), None) or next(deeper, None)


_PLACES: Final = (
    "agents.defaults.",
    f"{OWN_ENTRY}.",
    "memorySearch.",
    "memory.search.",
    "memory.",
    "search.",
)
"""What may stand before the short name of a key in a file."""


def short_name(key: str) -> str:
    """The one spelling of a key that is given as it stands somewhere in a file."""
    key = key.strip().strip(".")
    for place in _PLACES:
        key = key.removeprefix(place)
    return key


def describe_json(settings: Settings, rows: Sequence[Row] | None = None) -> dict[str, object]:
    """`{"values": {path: {"value", "origin": {"kind", "detail"}}}, "warnings": [...]}`, of all rows
    unless some are given.
    """
    rows = describe_rows(settings) if rows is None else rows
    return {
        "values": {
            row.path: {"value": row.value, "origin": msgspec.to_builtins(row.origin)}
            for row in rows
        },
        "warnings": [_encodable(msgspec.to_builtins(w)) for w in settings.warnings],
    }


def _identity(settings: Settings) -> Iterator[Row]:
    config_path = str(settings.config_path) if settings.config_path else None
    yield _row(settings, "agentId", settings.agent_id)
    yield _row(settings, "configPath", config_path)
    yield _row(settings, "stateDir", str(settings.state_dir))


def _keys(settings: Settings) -> Iterator[Row]:
    for section in SECTIONS:
        for key in section.keys:
            if key.field:
                value = attrgetter(key.field)(settings)
                yield _row(settings, section.documented(key), key.kind.render(value))


def _free_names(settings: Settings) -> Iterator[Row]:
    """What stands below names that the user chose, as far as the file gives it."""
    members: dict[KeyPath, object] = {}
    for name, model in settings.model_providers.items():
        members["models", "providers", name, "baseUrl"] = WebAddress().render(model.base_url)
        members["models", "providers", name, "apiKey"] = ApiKey().render(model.api_key)
        members["models", "providers", name, "headers"] = Headers().render(model.headers)
    for name, profile in settings.auth.profiles.items():
        members["auth", "profiles", name, "provider"] = profile.provider
        members["auth", "profiles", name, "mode"] = profile.mode
    for name, order in settings.auth.order.items():
        members["auth", "order", name] = list(order)
    for at, value in members.items():
        if render_path(at) in settings.origins:
            yield _row(settings, render_path(at), value)


def _variables(settings: Settings) -> Iterator[Row]:
    for name in settings.environment_keys:
        yield _row(settings, name, MASK)


def _row(settings: Settings, path: str, value: object) -> Row:
    return Row(path, _encodable(value), settings.origins.get(path) or SettingOrigin(kind="default"))


def _encodable(value: object) -> object:
    """The value with bytes of file names that are no text replaced by question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    return value


_HOME: Final = "/nonexistent"
"""A user who does not exist, so that the defaults do not depend on the machine that prints them."""
_TITLE: Final = """\
# Configuration

Made from the program's own table of keys by `./scripts/reference`. These ten are what people change:
"""
_CHANGED: Final = (
    "provider",
    "model",
    "remote.baseUrl",
    "remote.apiKey",
    "query.maxResults",
    "query.minScore",
    "query.decay.enabled",
    "extraPaths",
    "append.enabled",
    "store.path",
)
_INTRODUCTION: Final = """\
    memory-gateway config set query.maxResults 8
    memory-gateway config unset query.maxResults
    memory-gateway config query

`config set` checks the value, says what is allowed where it is not, and writes it; comments stay. `config WORD` shows a key and those below it, else all
that have the word in their name, each with its value and where that comes from. `memory-gateway reload` tells a gateway that runs.

A key has one name, as here and in every message. Two files hold settings, both JSON5 and every key in them optional:

* **Ours**, `~/.config/memory-gateway/config.json5`, where a key stands by its name: `{query: {maxResults: 8}}`. It is read for a
  [folder of notes](notes.md), and where there is no `openclaw.json`. A slip in it stops the start (exit code 78) and is told with line and column.
* **`openclaw.json`** in OpenClaw's state directory. There a key stands below one of the places that its table names; the first named
  place wins, and an agent's own entry wins over the defaults. Unknown keys are warned of with the nearest known name.

A key that OpenClaw has too never stops the start: a value that cannot be read is ignored, with a warning that names file and line. Settings
that are ours alone are strict: such a value there stops the start (exit code 78) and says line and column. Where the default would be careless,
what cannot be read errs on the safe side: `enabled` is then off, `provider` is `none`, and a key is sent nowhere whose address is not known.

In `openclaw.json` `plugins.entries.memory-gateway.config` is the place for everything that OpenClaw has no key for, since it refuses a file with unknown keys elsewhere:

    {plugins: {entries: {"memory-gateway": {config: {
      backend: "builtin", qmd: {}, scope: {}, append: {enabled: true}, compaction: {},
      search: {store: {path: "~/index/{agentId}.sqlite"}, chunking: {tokens: 400}},
      agents: {ops: {search: {query: {decay: {enabled: true}}}}},
    }}}}}

Of several places for one key an agent's own wins, then this one, then the older ones, then the default. `memory-gateway doctor` names the keys
that OpenClaw would refuse where they stand, and `memory-gateway config --migrate` prints the file with them moved: [migration](migration.md).
"""


def reference_markdown() -> str:
    """The whole document."""
    request = LoadRequest(environment={"HOME": _HOME}, cwd=Path(_HOME))
    rows = describe_rows(load_settings(request))
    defaults = {row.path: row.value_text.replace(_HOME, "~") for row in rows}
    parts = [
        _TITLE,
        _most_changed(defaults),
        _INTRODUCTION,
        *(_section(section, defaults) for section in SECTIONS),
    ]
    return "\n".join(parts)


def _most_changed(defaults: Mapping[str, str]) -> str:
    keys = {section.documented(key): key for section in SECTIONS for key in section.keys}
    rows = (_row_of_key(keys[name], defaults[name]) for name in _CHANGED)
    return "\n".join((*_HEAD, *rows, ""))


def _section(section: Section, defaults: Mapping[str, str]) -> str:
    lines = [
        f"## `{_title(section)}`",
        "",
        f"Stands at {', else '.join(f'`{place}`' for place in section.places)}.",
        "",
        *_HEAD,
        *(_row_of_key(key, defaults.get(section.documented(key), "–")) for key in section.keys),
        *_retired(section),
        "",
    ]
    return "\n".join(lines)


_HEAD: Final = ("| key | allowed | default | meaning |", "|---|---|---|---|")


def _title(section: Section) -> str:
    return section.name or section.places[0]


def _row_of_key(key: Key, default: str) -> str:
    names = ", ".join(f"`{path}`" for path in (key.path, *key.aliases))
    shown = "–" if default == "–" else f"`{default}`"
    return f"| {names} | {_cell(key.kind.allowed)} | {_cell(shown)} | {_cell(key.meaning)} |"


def _retired(section: Section) -> Iterator[str]:
    if section.retired:
        yield ""
        yield "Known from other releases, without effect here:"
        yield ""
        yield from (f"* `{path}`: {reason}" for path, reason in section.retired)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
