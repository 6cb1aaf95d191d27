"""The settings for people: effective values with their origins. Shows no secret."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from config.keys.kinds import ApiKey, Headers, WebAddress
from config.keys.tree import OWN_ENTRY
from config.secrets import MASK
from config.sections import FIELDS, SECTIONS
from config.settings import SettingOrigin, Settings
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
    """Returns one row for every key, identity first, in the order of the documentation."""
    variables = (_row(settings, name, MASK) for name in settings.environment_keys)
    return (*_identity(settings), *_keys(settings), *_free_names(settings), *variables)


def rows_of(rows: Sequence[Row], key: str) -> tuple[Row, ...]:
    """Returns the rows of a key, given by any of its paths, and of keys below it; else those with the text in the path.

    Empty if there is none.
    """
    name = short_name(key)
    wanted = _MAIN_PATHS.get(name, name)
    found = tuple(row for row in rows if f"{row.path}.".startswith(f"{wanted}."))
    return found or tuple(row for row in rows if wanted.lower() in row.path.lower())


_MAIN_PATHS: Final = {
    section.documented(alias): section.documented(key.path)
    for section in SECTIONS
    for key in section.keys
    for alias in key.aliases
}
"""The path under which a key has its row, by each of its other paths."""


def nearest_path(rows: Sequence[Row], key: str) -> str | None:
    """Returns the documented path that an unknown one probably means."""
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
"""The prefixes that the short name of a key may have in a file."""


def short_name(key: str) -> str:
    """Returns the short spelling of a key that is given by its path in a file."""
    key = key.strip().strip(".")
    for place in _PLACES:
        key = key.removeprefix(place)
    return key


def describe_json(settings: Settings, rows: Sequence[Row] | None = None) -> dict[str, object]:
    """Returns `{"values": {path: {"value", "origin": {"kind", "detail"}}}, "warnings": [...]}`, with all rows
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
    for name, key in FIELDS.items():
        yield _row(settings, name, key.kind.render(attrgetter(key.field)(settings)))


def _free_names(settings: Settings) -> Iterator[Row]:
    """Yields the keys below names that the user chose, as far as the file gives them."""
    members: dict[KeyPath, object] = {}
    for name, model in settings.model_providers.items():
        members["models", "providers", name, "api"] = model.api
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


def _row(settings: Settings, path: str, value: object) -> Row:
    return Row(path, _encodable(value), settings.origins.get(path) or SettingOrigin(kind="default"))


def _encodable(value: object) -> object:
    """Returns the value with bytes of file names that are not text replaced by question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    return value
