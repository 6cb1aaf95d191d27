"""The key and headers of a request: the documented order of sources, auth profiles, what counts as a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from config.runtime.decoding import prepared
from config.runtime.files import SilentFileError, read_file
from config.settings import AuthSettings, ModelProviderSettings, Secret
from config.source.located import quote
from config.vendors import OPENAI, Vendor
from providers.endpoints import Endpoint, Origin, home_of, may_receive
from providers.provider_interface import ProviderAuthError, ProviderUnavailableError

_MAX_BYTES = 1 << 20
_RANK = {"oauth": 0, "token": 1, "api_key": 2}


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One stored credential. OAuth tokens are not read, since they give no access to embeddings."""

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
        """Returns why it cannot be used, or None. A cooldown only makes it the last choice."""
        if self.type == "oauth":
            return "it is an OAuth login, which gives no access to embeddings"
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
    profiles: dict[str, object] = msgspec.field(default_factory=dict)
    order: dict[str, object] = msgspec.field(default_factory=dict)
    usageStats: dict[str, object] = msgspec.field(default_factory=dict)  # noqa: N815


def load(paths: Sequence[Path]) -> ProfileStore:
    """Reads the files in turn; a profile or order of a later file replaces that of an earlier one.

    Blocking. A file may be missing.
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
    """Returns the provider's profiles, most preferred first; those in a cooldown come last.

    An explicit order (the store's, else the configuration's) is kept. Otherwise OAuth comes before
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
    return msgspec.json.decode(data, type=prepared(_File), strict=False)


def _profiles(file: _File, path: Path, problems: list[str]) -> dict[str, Profile]:
    found: dict[str, Profile] = {}
    for id_, raw in file.profiles.items():
        try:
            entry = msgspec.convert(raw, prepared(_Entry), strict=False)
            usage = msgspec.convert(file.usageStats.get(id_, {}), prepared(_Usage), strict=False)
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


def _strings(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _reason(error: Exception) -> str:
    # A decoding error may quote the file, which is full of secrets.
    if isinstance(error, SilentFileError):
        return str(error.strerror)
    return "it is not valid JSON" if isinstance(error, msgspec.MsgspecError) else str(error)


_GEMINI_PLACEHOLDERS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_CODEX = "openai-codex"


class Credential(msgspec.Struct, frozen=True):
    """A key and where it came from, in words (`environment variable OPENAI_API_KEY`)."""

    secret: Secret
    source: str


class KeySources(msgspec.Struct, frozen=True):
    """Everything that may contain a key for one vendor at one endpoint."""

    vendor: Vendor
    endpoint: Endpoint
    remote_key: Secret | None = None
    """`remote.apiKey`; None for a fallback provider, which never inherits it."""
    remote_problem: str | None = None
    """The reason why the configured `remote.apiKey` cannot be read; no other key may replace it."""
    provider: ModelProviderSettings = msgspec.field(default_factory=ModelProviderSettings)
    profiles: ProfileStore = msgspec.field(default_factory=ProfileStore)
    auth: AuthSettings = msgspec.field(default_factory=AuthSettings)
    variables: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    """Keys found in environment variables, by the variable's name."""
    now_ms: float = 0
    is_unasked: bool = False
    """True if nobody named the vendor, so that only its key makes it a candidate for "auto"."""

    @property
    def homes(self) -> frozenset[Origin]:
        """The origins to which the vendor's keys belong: its own, and that of its address in `models.providers`.

        The latter does not count if that block has a key of its own, which is then the one for that origin.
        """
        if self.vendor.key_home is not None:
            return frozenset({Origin.of(self.vendor.key_home)})
        home = home_of(self.vendor)
        own = {home.origin} if home else set()
        if self.provider.base_url and self.provider.api_key is None:
            own.add(Endpoint.parse(self.provider.base_url).origin)
        return frozenset(own)

    @property
    def provider_home(self) -> frozenset[Origin]:
        """The origin to which the key and the secret headers of `models.providers` belong."""
        base_url = self.provider.base_url or self.vendor.base_url
        return frozenset({Endpoint.parse(base_url).origin} if base_url else ())

    @property
    def entry_has_key_for_endpoint(self) -> bool:
        """True if `models.providers` names this very host together with a key for it."""
        has_key = self.provider.api_key is not None or self.provider.api_key_problem is not None
        return bool(has_key and self.provider.base_url) and (
            self.endpoint.origin in self.provider_home
        )

    @property
    def needs_key(self) -> bool:
        """True if the host needs a key. A server here with OpenAI's wire is taken for one of the user's own."""
        if self.vendor.wire is OPENAI and self.endpoint.origin.local and not self.is_unasked:
            return False
        return self.vendor.needs_key


class _Source(msgspec.Struct, frozen=True):
    """One place that was looked at: a key and the origins it belongs to, or the reason why there is none."""

    name: str
    secret: Secret | None = None
    homes: frozenset[Origin] | None = None
    """None: it was written for this very endpoint."""
    only_home: bool = False
    """True if a private address gets it only if it is one of the homes."""
    reason: str = "not set"

    def belongs_to(self, origin: Origin) -> bool:
        return self.homes is None or origin in self.homes


def find_key(sources: KeySources) -> Credential | None:
    """Returns the first usable key; None if there is none and the host needs none.

    Raises a `ProviderAuthError` that names every source looked at.
    """
    _refuse_unreadable("remote.apiKey", sources.remote_problem)
    looked_at: list[str] = []
    origin, is_meant = sources.endpoint.origin, sources.needs_key
    for source in _all(sources):
        reason = _why_not(source, origin)
        if reason is None and source.secret is not None:
            return Credential(source.secret, source.name)
        looked_at.append(f"{source.name}: {reason}")
        # A key that was configured for this host and cannot be sent is an error, not skipped silently.
        is_meant |= source.secret is not None and source.belongs_to(origin)
    if not is_meant:
        return None
    variable = sources.vendor.key_variable
    named = f"{variable} in the environment" if variable else _entry_key(sources)
    raise ProviderAuthError(
        f'No API key found for provider "{sources.vendor.name}". {_codex_note(sources)}'
        f"Looked at {'; '.join(looked_at)}.",
        remedy=f"Set {named}, or remote.apiKey "
        "in the configuration (any value will do for a server that needs no key).",
    )


def _refuse_unreadable(name: str, problem: str | None) -> None:
    if problem is not None:
        raise ProviderAuthError(
            f"{name} is configured and cannot be read: {problem}.",
            remedy="Fix or remove it; no other key is used in its place.",
        )


def _all(sources: KeySources) -> Iterator[_Source]:
    yield _from_remote(sources)
    yield from _from_profiles(sources)
    variable = sources.vendor.key_variable
    if variable is not None:
        yield _vendors_own(
            sources, f"environment variable {variable}", _variable(sources, variable)
        )
    yield _from_entry(sources)


def _vendors_own(
    sources: KeySources, name: str, secret: Secret | None, reason: str = "not set"
) -> _Source:
    only_home = sources.vendor.key_home is not None or sources.entry_has_key_for_endpoint
    return _Source(name, secret, sources.homes, only_home, reason)


def _from_entry(sources: KeySources) -> _Source:
    name, variable = _entry_key(sources), sources.vendor.key_variable
    _refuse_unreadable(name, sources.provider.api_key_problem)
    secret = _trimmed(sources.provider.api_key)
    if secret is not None and secret.value == variable:
        # The chat gateway's own spelling of "from that variable".
        name = f"environment variable {variable} (named by {name})"
        secret = _variable(sources, variable)
    profile = sources.profiles.profiles.get(secret.reveal()) if secret is not None else None
    if profile is not None:
        reason = profile.unusable(sources.now_ms)
        if profile.provider != sources.vendor.config_key.lower():
            reason = f"it is one of {quote(profile.provider)}"
        named = f"it names the auth profile {quote(profile.id)}, and {reason}"
        _refuse_unreadable(name, named if reason else None)
        name, secret = f"auth profile {profile.id} (named by {name})", profile.secret
    return _Source(name, secret, sources.provider_home)


def _entry_key(sources: KeySources) -> str:
    return f"models.providers.{sources.vendor.config_key}.apiKey"


def _from_remote(sources: KeySources) -> _Source:
    name = "remote.apiKey"
    secret = _trimmed(sources.remote_key)
    if secret and sources.vendor.name == "gemini" and secret.value in _GEMINI_PLACEHOLDERS:
        variable = secret.value
        named = f"environment variable {variable} (named by {name})"
        return _Source(named, _variable(sources, variable))
    return _Source(name, secret)


def _from_profiles(sources: KeySources) -> Iterator[_Source]:
    key = sources.vendor.config_key.lower()
    found = candidates(sources.profiles, sources.auth, key, sources.now_ms)
    for profile in found:
        reason = profile.unusable(sources.now_ms)
        secret = None if reason else profile.secret
        yield _vendors_own(sources, f"auth profile {profile.id}", secret, reason or "not set")
    if not found:
        problems = ", ".join(sources.profiles.problems)
        yield _Source("auth profiles", reason=problems or f"none for {key}")


def _why_not(source: _Source, origin: Origin) -> str | None:
    if source.secret is None:
        return source.reason
    if not source.secret.value.isascii() or not source.secret.value.isprintable():
        return "it holds characters that HTTP forbids"
    if source.homes is None or source.belongs_to(origin):
        return None
    if source.only_home or not may_receive(origin, source.homes):
        homes = ", ".join(sorted(str(home) for home in source.homes))
        belongs = f"belongs to {homes}" if homes else "was written for no address"
        return f"it {belongs} and is not sent to {origin} (to allow it, set remote.apiKey)"
    return None


def _variable(sources: KeySources, name: str) -> Secret | None:
    return _trimmed(sources.variables.get(name))


def _trimmed(secret: Secret | None) -> Secret | None:
    clean = secret.reveal().strip() if secret else ""
    return Secret(clean) if clean else None


def _codex_note(sources: KeySources) -> str:
    if sources.vendor.name != "openai":
        return ""
    if not any(profile.provider == _CODEX for profile in sources.profiles.profiles.values()):
        return ""
    return "There is an OpenAI Codex OAuth login, but it gives no access to embeddings. "


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_SECRET = re.compile(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merges headers into one mapping with lower-case names; a later layer wins. Framing headers are left out.

    Raises `ProviderUnavailableError` for a name or value that HTTP forbids.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            _check(name, value)
            merged[name.lower()] = value.strip()
    return {name: value for name, value in merged.items() if name not in _FRAMING}


def is_secret(name: str) -> bool:
    """Returns whether a header of this name is taken for a credential."""
    return _SECRET.search(name) is not None


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not is_secret(name)}


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value.strip()):
        raise ProviderUnavailableError(
            f"The configured header {name!r} cannot be sent: it holds characters that HTTP forbids.",
            remedy="Correct remote.headers or models.providers.<name>.headers.",
        )
