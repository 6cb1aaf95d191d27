"""Kinds whose values are secrets: API keys and HTTP headers.

A message never shows such a value. A key that cannot be read (a variable that is not set, a store that
we do not have) is a warning and an `Unresolved`, so that memory goes on without embeddings and no
other key is sent in its place.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from config.keys.kinds import Kind
from config.settings import Secret
from config.source.located import KeyPath, Located, descend, quote, type_words
from config.source.reading import Reading
from config.source.substitute import substitute


class Unresolved(msgspec.Struct, frozen=True):
    """A key that is configured but cannot be had, and why."""

    reason: str


class ApiKey(Kind, frozen=True):
    """A string, `${NAME}` filled in, or a reference `{source: "env", id: "NAME"}`."""

    @property
    def allowed(self) -> str:
        return 'a string, or {source: "env", id: "NAME"}'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        if isinstance(node.value, dict):
            return self._reference(node, at, reading)
        if not isinstance(node.value, str):
            return self.mismatch(node, at, reading, type_words(node.value))
        filled = substitute(node.value, reading.environment)
        if filled.missing:
            return _variable_missing(filled.missing[0], node, at, reading)
        if filled.used:
            reading.variables[at] = filled.used
        return self._secret(filled.text, node, at, reading)

    def _secret(self, text: str, node: Located, at: KeyPath, reading: Reading) -> Any:
        # Keys are often pasted with the line break behind them.
        text = text.strip()
        if not text.isprintable():
            return self.mismatch(node, at, reading, "a string with control characters")
        return Secret(text) if text else UNSET

    def _reference(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        source, name = descend(node, "source"), descend(node, "id")
        if not _is_text(source) or not _is_text(name):
            found = "an object without the strings source and id"
            return self.mismatch(node, at, reading, found)
        assert source is not None
        assert name is not None
        if source.value != "env":
            reason = f'refers to a secret in {quote(source.value)}; only "env" is supported'
            return _unresolved(reason, node, at, reading)
        value = reading.environment.get(name.value.strip(), "")
        if not value.strip():
            return _variable_missing(name.value.strip(), node, at, reading)
        reading.variables[at] = (name.value.strip(),)
        return self._secret(value, node, at, reading)

    def render(self, value: Any) -> Any:
        return None if value is None else "***"


class Headers(Kind, frozen=True):
    """HTTP headers: a map of names to strings, `${NAME}` filled in."""

    @property
    def allowed(self) -> str:
        return "an object of strings"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        if not isinstance(node.value, dict):
            return self.mismatch(node, at, reading, type_words(node.value))
        headers: dict[str, str] = {}
        for name, member in node.value.items():
            value = self._header(name, member, (*at, name), reading)
            if value is not UNSET:
                headers[name] = value
        return headers

    def _header(self, name: str, node: Located, at: KeyPath, reading: Reading) -> Any:
        secret = ApiKey().read(node, at, reading) if isinstance(node.value, str | dict) else None
        if secret is None or not name.isprintable() or not name.strip():
            found = "a name that is no header" if secret is not None else type_words(node.value)
            return self.mismatch(node, at, reading, found)
        return secret.reveal() if isinstance(secret, Secret) else UNSET

    def render(self, value: Any) -> Any:
        return dict.fromkeys(value, "***")


def _is_text(node: Located | None) -> bool:
    return node is not None and isinstance(node.value, str) and bool(node.value.strip())


def _variable_missing(name: str, node: Located, at: KeyPath, reading: Reading) -> Unresolved:
    reason = f"refers to the environment variable {name}, which is not set"
    return _unresolved(reason, node, at, reading)


def _unresolved(reason: str, node: Located, at: KeyPath, reading: Reading) -> Unresolved:
    reading.warn(at, node, f"{reason}; the key has no value")
    return Unresolved(reason)
