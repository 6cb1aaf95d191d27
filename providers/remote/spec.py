"""One remote provider as configured: endpoint, key, headers, model and options, put together.

Only the primary takes anything from `remote`. A fallback inherits nothing of the primary: it uses
its vendor's own key, address, headers and default model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from config.paths import auth_profile_paths
from config.settings import ModelProviderSettings, Settings
from config.source.located import quote
from config.vendors import GEMINI, VENDORS, ModelLimits, Vendor
from providers.endpoints import Endpoint, endpoint_at, home_of, may_receive
from providers.provider_interface import (
    InputLimits,
    ProviderAuthError,
    ProviderUnavailableError,
    Purpose,
    Role,
)
from providers.remote import credentials
from providers.remote.credentials import Credential, KeySources, find_key

_OPENAI_APIS = frozenset({"openai-completions", "openai-responses"})
"""Values of `models.providers.*.api` whose servers offer OpenAI's embeddings beside their chat."""
_OTHER_WIRES = {
    "bedrock": "Amazon Bedrock has a wire and a login of its own",
    "github-copilot": "GitHub Copilot is reached by a login that only the chat gateway has",
}
_UNKNOWN = "No provider of this id is known here (adapters of the chat gateway's plugins are not)"
_MEANT = {"google": "gemini", "google-gemini": "gemini"}
# A host of which only the protocol is known, not the limits: small enough for a server that embeds
# some thousand tokens a second to answer within one request's time.
_COMPATIBLE = ModelLimits()
_BY_TASK_TYPE = ("gemini-embedding-001", "gemini-embedding-exp", "text-embedding", "embedding-001")

_LIKE_A_SECRET_CHARS = 8
"""Shorter values of headers (`1`, `beta`) are not secrets, and masking them would garble messages."""


def find_vendor(name: str, settings: Settings, role: Role) -> Vendor:
    """Returns the row of an id, or one made from its entry in `models.providers`.

    Raises `ProviderUnavailableError` for an unknown id, or one whose wire is not supported here.
    """
    known = VENDORS.get(name)
    if known is not None:
        return known
    key = _entry_name(settings, name)
    if name in _OTHER_WIRES:
        raise _not_here(f"{_OTHER_WIRES[name]}, which is not spoken here", name, settings, role)
    if key is None:
        raise _not_here(_UNKNOWN, name, settings, role)
    entry = settings.model_providers[key]
    api = (entry.api or "").lower()
    if api in _OPENAI_APIS or (not api and entry.base_url):
        speaks = "openai-compatible"
    elif api == "ollama":
        speaks = "ollama"
    else:
        raise _not_here(_other_api(key, entry, settings), name, settings, role)
    return msgspec.structs.replace(
        VENDORS[speaks], name=name, label=quote(key), other_config_key=key
    )


def entry_of(settings: Settings, config_key: str) -> ModelProviderSettings:
    """Returns the entry in `models.providers`, by its name without case; an empty one if there is none."""
    key = _entry_name(settings, config_key)
    return settings.model_providers[key] if key is not None else ModelProviderSettings()


def _entry_name(settings: Settings, name: str) -> str | None:
    entries = settings.model_providers
    if name in entries:
        return name
    return next((key for key in entries if key.strip().lower() == name.lower()), None)


def _other_api(key: str, entry: ModelProviderSettings, settings: Settings) -> str:
    if entry.api is None:
        return f"models.providers.{key} has neither an api nor a baseUrl"
    place = _place(settings, f"models.providers.{key}.api")
    return f"{place} is {quote(entry.api)}, a wire that has no embeddings here"


def _not_here(cause: str, name: str, settings: Settings, role: Role) -> ProviderUnavailableError:
    key = "provider" if role == "primary" else "fallback"
    meant = _MEANT.get(name)
    choices = ", ".join((*VENDORS, "local"))
    return ProviderUnavailableError(
        f"{cause} ({_place(settings, key)}: {quote(name)}).",
        remedy=f'Write "{meant}".'
        if meant
        else f"Set {key} to one of {choices}, or to the id of an entry of models.providers whose api "
        'is "openai-completions"; "none" leaves keywords without this notice.',
    )


def _place(settings: Settings, key: str) -> str:
    """Returns the key with its place: `memory.search.provider, line 4`."""
    origin = settings.origins.get(key)
    return origin.detail if origin and origin.detail else key


def _input_limits(row: ModelLimits, *, tokens: int) -> InputLimits:
    return InputLimits(
        max_input_tokens=row.input_tokens,
        max_items=row.items,
        max_request_tokens=tokens,
        max_request_bytes=row.size_bytes,
    )


class RemoteSpec(msgspec.Struct, frozen=True):
    """Everything a request needs. Never shows a secret in its `repr`."""

    vendor: Vendor
    endpoint: Endpoint
    model: str
    credential: Credential | None
    """None: a configured header contains the credential, or the host needs none."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The configured headers, with lower-case names; may contain credentials."""
    dimensions: int | None = None
    query_type: str | None = None
    document_type: str | None = None
    request_timeout_s: float = 120.0

    def __repr__(self) -> str:
        return f"RemoteSpec({self.place}, {self.model})"

    @property
    def official(self) -> bool:
        """True if this is the vendor's own address, whose limits and abilities are documented."""
        home = home_of(self.vendor)
        return home is not None and self.endpoint.origin == home.origin

    @property
    def limits(self) -> InputLimits:
        """The documented limits of the model at the vendor's own address, or cautious ones elsewhere.

        A sixth of the documented tokens of a request is kept in reserve, because they are only estimated.
        """
        limits = self.vendor.limits
        known = next((row for row in limits if self.model.startswith(row.models)), None)
        if self.official and known is not None:
            return _input_limits(known, tokens=known.tokens * 5 // 6)
        # Gemini's hundred are part of the protocol rather than of one host.
        items = 100 if self.vendor.wire is GEMINI else _COMPATIBLE.items
        cautious = _input_limits(_COMPATIBLE, tokens=_COMPATIBLE.tokens)
        return msgspec.structs.replace(cautious, max_items=items)

    def input_type(self, purpose: Purpose) -> str | None:
        """Returns the request's input or task type; None sends none."""
        if self._is_prompted:
            return None
        wire = self.vendor.wire
        if purpose == "query":
            return self.query_type or wire.query_type
        return self.document_type or wire.document_type

    def prompt(self, purpose: Purpose) -> str:
        """Returns the prompt before each text; empty for most models.

        A configured query type is the prompt's task (`search result`, `question answering` ...).
        """
        if not self._is_prompted:
            return ""
        if purpose == "document":
            return "title: none | text: "
        return f"task: {self.query_type or 'search result'} | query: "

    @property
    def _is_prompted(self) -> bool:
        return self.vendor.wire is GEMINI and not self.model.startswith(_BY_TASK_TYPE)

    @property
    def place(self) -> str:
        """The place for messages: `OpenAI at api.openai.com`."""
        return f"{self.vendor.label} at {self.endpoint.origin}"

    @property
    def key_source(self) -> str | None:
        """The source of the key in words; None: no key is sent."""
        if self.credential is not None:
            return self.credential.source
        return "a configured header" if self.vendor.auth_header in self.headers else None

    @property
    def outgoing(self) -> dict[str, str]:
        """Every header that is added to a request: the credential, then what is configured."""
        if self.credential is None:
            return dict(self.headers)
        key = f"{self.vendor.auth_scheme}{self.credential.secret.reveal()}"
        return credentials.merge({self.vendor.auth_header: key}, self.headers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not appear in any message. Any configured header may contain a key, whatever its name."""
        values = [text for name, text in self.headers.items() if credentials.is_secret(name)]
        values += [value for value in self.headers.values() if len(value) >= _LIKE_A_SECRET_CHARS]
        values += [value.split(" ", 1)[1] for value in values if " " in value]
        if self.credential is not None:
            values.append(self.credential.secret.reveal())
        return tuple(value for value in values if value)


def given(**fields: object) -> dict[str, object]:
    """Returns the fields of a request that have a value; the others are left to the vendor."""
    return {name: value for name, value in fields.items() if value is not None}


def resolve_spec(settings: Settings, vendor: Vendor, role: Role) -> RemoteSpec:
    """Puts one provider together. Blocking: reads the auth profiles.

    Raises `ProviderAuthError` when there is no key that may be sent to the endpoint, though it needs
    one, and `ProviderUnavailableError` for an address or header that cannot be used, and if an
    address or a model is missing.
    """
    search, primary = settings.search, role == "primary"
    provider = entry_of(settings, vendor.config_key)
    remote_url = search.remote.base_url if primary else None
    endpoint = _endpoint(vendor, remote_url or _own_address(vendor, provider), role)
    sources = KeySources(
        vendor=vendor,
        endpoint=endpoint,
        remote_key=search.remote.api_key if primary else None,
        remote_problem=search.remote.api_key_problem if primary else None,
        provider=provider,
        profiles=credentials.load(auth_profile_paths(settings.state_dir, settings.agent_dir)),
        auth=settings.auth,
        variables=settings.environment_keys,
        now_ms=time.time() * 1000,
        is_unasked=primary and search.provider == "auto",
    )
    own = search.remote.headers if primary else {}
    headers = credentials.merge(_provider_headers(sources), own)
    return RemoteSpec(
        vendor=vendor,
        endpoint=endpoint,
        model=_model(vendor, search.model, role),
        credential=_credential(sources, headers),
        headers=headers,
        dimensions=search.output_dimensionality if primary else None,
        query_type=search.query_input_type if primary else None,
        document_type=search.document_input_type if primary else None,
    )


def _own_address(vendor: Vendor, provider: ModelProviderSettings) -> str | None:
    """Returns the vendor's address in `models.providers`, or its public one. Raises `ProviderUnavailableError`."""
    if provider.base_url_problem is not None:
        raise ProviderUnavailableError(
            f"The address of {vendor.name} is configured and cannot be read.",
            remedy=f"Correct models.providers.{vendor.config_key}.baseUrl; nothing is sent elsewhere "
            "meanwhile.",
        )
    return provider.base_url or vendor.base_url


def _endpoint(vendor: Vendor, base_url: str | None, role: Role) -> Endpoint:
    if base_url is not None:
        return endpoint_at(vendor, base_url)
    own = f"models.providers.{vendor.config_key}.baseUrl"
    raise ProviderUnavailableError(
        f"{vendor.name} has no address.",
        remedy=f"Set remote.baseUrl or {own} to that of the server, which usually ends in /v1."
        if role == "primary"
        else f"Set {own}: a fallback does not take remote.",
    )


def _model(vendor: Vendor, configured: str | None, role: Role) -> str:
    """Returns the model: the configured one for the primary; a fallback takes its own default, if it has one."""
    asked = configured if role == "primary" or vendor.model is None else None
    model = vendor.bare_model(asked)
    if model is None:
        raise ProviderUnavailableError(
            f"No model is named for {vendor.name}, which has no default of its own.",
            remedy="Set model to the name of an embedding model that the server has.",
        )
    return model


def _provider_headers(sources: KeySources) -> Mapping[str, str]:
    """Returns `models.providers.*.headers`, without credentials that do not belong to the endpoint."""
    headers = sources.provider.headers
    if may_receive(sources.endpoint.origin, sources.provider_home):
        return headers
    return credentials.without_secrets(headers)


def _credential(sources: KeySources, headers: Mapping[str, str]) -> Credential | None:
    try:
        return find_key(sources)
    except ProviderAuthError:
        if sources.vendor.auth_header in headers:
            return None
        raise
