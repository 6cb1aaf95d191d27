"""The chat gateway's `auth-profiles.json`: reading it, and the order in which profiles are tried.

Read-only: profiles are made, refreshed and marked by the chat gateway. A broken file or profile is
reported in `problems` and otherwise skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from config.disk.reading import SilentFileError, read_file
from config.settings import AuthSettings, Secret

_MAX_BYTES = 1 << 20
_RANK = {"oauth": 0, "token": 1, "api_key": 2}


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One stored credential. OAuth tokens are never read into it: they serve no embeddings."""

    id: str
    provider: str
    type: Literal["api_key", "token", "oauth"]
    secret: Secret | None = None
    expires_ms: float | None = None
    """Milliseconds since 1970."""
    last_used_ms: float = 0
    blocked_until_ms: float = 0
    """End of a cooldown or of a disabling."""

    def unusable(self, now_ms: float) -> str | None:
        """Why it cannot serve, or None. A cooldown only makes it the last choice."""
        if self.type == "oauth":
            return "it is an OAuth login, which does not serve embeddings"
        if self.secret is None:
            return "it holds no key"
        if self.expires_ms and self.expires_ms <= now_ms:
            return "it has expired"
        return None


class ProfileStore(msgspec.Struct, frozen=True, kw_only=True):
    profiles: Mapping[str, Profile] = msgspec.field(default_factory=dict)
    order: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    problems: tuple[str, ...] = ()


class _Entry(msgspec.Struct):
    provider: str
    type: Literal["api_key", "token", "oauth"]
    key: str | None = None
    token: str | None = None
    expires: float | None = None


class _Usage(msgspec.Struct):
    lastUsed: float = 0  # noqa: N815 - the file's own spelling
    cooldownUntil: float = 0  # noqa: N815
    disabledUntil: float = 0  # noqa: N815


class _File(msgspec.Struct):
    profiles: dict[str, Any] = msgspec.field(default_factory=dict)
    order: dict[str, Any] = msgspec.field(default_factory=dict)
    usageStats: dict[str, Any] = msgspec.field(default_factory=dict)  # noqa: N815


def load(paths: Sequence[Path]) -> ProfileStore:
    """Reads the files in turn; a profile or order of a later file replaces that of an earlier one.

    Blocking. A file that does not exist is no problem.
    """
    profiles: dict[str, Profile] = {}
    order: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for path in paths:
        try:
            file = _read(path)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            problems.append(f"{path} cannot be read: {_reason(error)}")
            continue
        profiles |= _profiles(file, path, problems)
        order |= {_norm(name): tuple(_strings(ids)) for name, ids in file.order.items()}
    return ProfileStore(profiles=profiles, order=order, problems=tuple(problems))


def candidates(
    store: ProfileStore, auth: AuthSettings, provider: str, now_ms: float
) -> list[Profile]:
    """The provider's profiles, most preferred first; those in a cooldown come last.

    An explicit order (the store's, else the configuration's) is kept. Otherwise OAuth stands before
    tokens before API keys, and the least recently used first.
    """
    order = store.order.get(provider) or auth.order.get(provider)
    if order:
        chosen = [store.profiles[id_] for id_ in order if id_ in store.profiles]
    else:
        configured = [id_ for id_, ref in auth.profiles.items() if _norm(ref.provider) == provider]
        known = configured or list(store.profiles)
        chosen = [store.profiles[id_] for id_ in known if id_ in store.profiles]
        chosen.sort(key=lambda profile: (_RANK[profile.type], profile.last_used_ms))
    mine = [profile for profile in chosen if profile.provider == provider]
    return sorted(mine, key=lambda profile: max(0.0, profile.blocked_until_ms - now_ms))


def _read(path: Path) -> _File:
    try:
        data = read_file(path, _MAX_BYTES)
    except FileNotFoundError:
        return _File()
    if len(data) > _MAX_BYTES:
        raise ValueError("it is larger than 1 MiB")
    return msgspec.json.decode(data, type=_File, strict=False)


def _profiles(file: _File, path: Path, problems: list[str]) -> dict[str, Profile]:
    found: dict[str, Profile] = {}
    for id_, raw in file.profiles.items():
        try:
            entry = msgspec.convert(raw, _Entry, strict=False)
            usage = msgspec.convert(file.usageStats.get(id_, {}), _Usage, strict=False)
        except msgspec.ValidationError:
            problems.append(f"profile {id_!r} in {path} is not of a known form")
            continue
        found[id_] = _profile(id_, entry, usage)
    return found


def _profile(id_: str, entry: _Entry, usage: _Usage) -> Profile:
    text = {"api_key": entry.key, "token": entry.token}.get(entry.type)
    return Profile(
        id=id_,
        provider=_norm(entry.provider),
        type=entry.type,
        secret=Secret(text.strip()) if text and text.strip() else None,
        expires_ms=entry.expires,
        last_used_ms=usage.lastUsed,
        blocked_until_ms=max(usage.cooldownUntil, usage.disabledUntil),
    )


def _norm(name: str) -> str:
    return name.strip().lower()


def _strings(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _reason(error: Exception) -> str:
    # A decoding error may quote the file, which is full of secrets.
    if isinstance(error, SilentFileError):
        return str(error.strerror)
    return "it is not valid JSON" if isinstance(error, msgspec.MsgspecError) else str(error)
