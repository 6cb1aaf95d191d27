"""Which keys differ between two readings of one agent's configuration. Pure.

Values are compared, not texts: a key that is written down with its default has not changed. Secrets
are compared as well, and never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from config.keys import SECTIONS
from config.loading.build import field_of
from config.settings import Settings


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
