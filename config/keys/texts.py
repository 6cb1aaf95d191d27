"""Kinds of strings that mean something: commands, addresses, paths, model references, time zones.

`settle` turns the relative ones into absolute paths once the agent's directories are known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET

from config.keys.kinds import Text
from config.paths import AGENT_PLACEHOLDER, Directories
from config.source.located import KeyPath, Located, quote
from config.source.reading import Reading

_URI_PREFIXES = ("hf:", "http://", "https://")


class Command(Text, frozen=True):
    """A program with its arguments, as words of a shell, though no shell ever sees them."""

    @property
    def allowed(self) -> str:
        return "the name or path of a program, with arguments if it needs some"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        text = Text.read(self, node, at, reading)
        if text is UNSET:
            return UNSET
        import shlex  # noqa: PLC0415 - only when the key is set

        try:
            words = shlex.split(text)
        except ValueError:
            return self.mismatch(node, at, reading, "a string with an open quotation mark")
        return shlex.join(words) if words and words[0] else UNSET

    def settle(self, value: Any, dirs: Directories) -> Any:
        if "~/" not in value:
            return value
        import shlex  # noqa: PLC0415 - only when the key is set

        program, *arguments = shlex.split(value)
        if program.startswith("~/"):
            program = str(dirs.resolve(program))
        return shlex.join((program, *arguments))


class Address(Text, frozen=True):
    """An http(s) address; a password in it is never shown."""

    checked: bool = True

    @property
    def allowed(self) -> str:
        return "an address that starts with http:// or https://"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        text = Text.read(self, node, at, reading)
        if text is UNSET or not self.checked:
            return text
        if not text.lower().startswith(("http://", "https://")):
            return self.mismatch(node, at, reading, "another string")
        fault = address_fault(text)
        if fault is not None:
            # The value stays: without it the default address would count, and get this one's key.
            reading.warn(at, node, f"{fault}, so nothing can be asked there")
        return text

    def render(self, value: Any) -> Any:
        if value is None:
            return None
        from config.secrets import redact  # noqa: PLC0415 - only for output

        return redact(value)


def address_fault(text: str) -> str | None:
    """Why this is no plain http(s) address; None when it is one. Never repeats the address."""
    if not text.isprintable() or " " in text:
        return "the address holds a space or a control character"
    from urllib.parse import urlsplit  # noqa: PLC0415 - only when an address is given

    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        return "the address has an open bracket, or no address inside of its brackets"
    if "@" in parts.netloc:
        return "the address holds a user name or password"
    if parts.scheme.lower() not in ("http", "https") or not host:
        return "it is not an http or https address"
    if parts.query or parts.fragment:
        return "the address carries a query or fragment"
    try:
        return None if parts.port != 0 else "the address has no valid port"
    except ValueError:
        return "the address has no valid port"


class ProviderId(Text, frozen=True):
    """The id of a provider of embeddings, in lower case.

    Any id is one: which of them can be used, only the providers know.
    """

    known: tuple[str, ...]
    """For messages and the reference."""

    @property
    def allowed(self) -> str:
        known = ", ".join(quote(one) for one in self.known)
        return f"one of {known}, or the id of an entry of models.providers"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        text = Text.read(self, node, at, reading)
        if text is UNSET or text.lower() in self.known:
            return text if text is UNSET else text.lower()
        from config.secrets import redact  # noqa: PLC0415 - only for an id that is not known here

        # The text as written: what a variable holds is nobody else's business.
        if redact(text) != text or not text.isprintable():
            return self.mismatch(node, at, reading, redact(quote(node.value)))
        return text.lower()


class PathText(Text, frozen=True):
    """A path; `~` is the home directory, a relative one is taken from `base`."""

    base: Literal["cwd", "workspace"] = "cwd"

    @property
    def allowed(self) -> str:
        return "a path as a string"

    def settle(self, value: Any, dirs: Directories) -> Path:
        return dirs.resolve(value, dirs.workspace if self.base == "workspace" else dirs.cwd)

    def render(self, value: Any) -> Any:
        return None if value is None else str(value)


class IndexPath(PathText, frozen=True):
    """A path in which every `{agentId}` stands for the agent."""

    def settle(self, value: Any, dirs: Directories) -> Path:
        return PathText.settle(self, value.replace(AGENT_PLACEHOLDER, dirs.agent_id), dirs)


class ModelPath(Text, frozen=True):
    """A model file, or an `hf:` or http(s) URI, which stays as it is."""

    @property
    def allowed(self) -> str:
        return "a path, an hf: URI or an http(s) URI, as a string"

    def settle(self, value: Any, dirs: Directories) -> Any:
        return value if value.startswith(_URI_PREFIXES) else str(dirs.resolve(value))


class TimeZoneName(Text, frozen=True):
    """An IANA name; one that this machine does not know is no value."""

    @property
    def allowed(self) -> str:
        return 'the name of a time zone, such as "Europe/Vienna"'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        name = Text.read(self, node, at, reading)
        if name is UNSET:
            return UNSET
        import zoneinfo  # noqa: PLC0415 - only when the key is set

        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            reading.warn(
                at, node, f"{quote(name)} is no time zone that this machine knows; ignored"
            )
            return UNSET
        return name
