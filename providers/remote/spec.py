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
from config.vendors import Vendor
from providers.endpoints import Endpoint, may_receive
from providers.provider_errors import ProviderAuthError, ProviderUnavailableError
from providers.provider_interface import InputLimits, Purpose, Role
from providers.remote import credentials, vendor_rules
from providers.remote.credentials import Credential, KeySources, find_key
from providers.remote.vendor_rules import endpoint_at, entry_of, home_of, limits_of

_LIKE_A_SECRET_CHARS = 8
"""Shorter values of headers (`1`, `beta`) are not secrets, and masking them would garble messages."""


class RemoteSpec(msgspec.Struct, frozen=True):
    """Everything a vendor module needs. Never shows a secret in its `repr`."""

    vendor: Vendor
    endpoint: Endpoint
    model: str
    credential: Credential | None
    """None: a configured header carries the credential, or the host needs none."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """As configured, lower-case names; may hold credentials."""
    dimensions: int | None = None
    query_type: str | None = None
    document_type: str | None = None
    request_timeout_s: float = 120.0

    def __repr__(self) -> str:
        return f"RemoteSpec({self.place}, {self.model})"

    @property
    def official(self) -> bool:
        """Whether this is the vendor's own address, whose limits and abilities are documented."""
        home = home_of(self.vendor)
        return home is not None and self.endpoint.origin == home.origin

    @property
    def limits(self) -> InputLimits:
        return limits_of(self.vendor, self.model, official=self.official)

    def input_type(self, purpose: Purpose) -> str | None:
        return vendor_rules.input_type(
            self.vendor.wire, self.model, purpose, self._configured(purpose)
        )

    def prompt(self, purpose: Purpose) -> str:
        return vendor_rules.prompt(self.vendor.wire, self.model, purpose, self._configured(purpose))

    def _configured(self, purpose: Purpose) -> str | None:
        return self.query_type if purpose == "query" else self.document_type

    @property
    def place(self) -> str:
        """For messages: `OpenAI at api.openai.com`."""
        return f"{self.vendor.label} at {self.endpoint.origin}"

    @property
    def key_source(self) -> str | None:
        """In words; None: no key is sent."""
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
        """What must not appear in any message. Any configured header may hold a key, whatever its name."""
        values = list(credentials.only_secrets(self.headers).values())
        values += [value for value in self.headers.values() if len(value) >= _LIKE_A_SECRET_CHARS]
        values += [value.split(" ", 1)[1] for value in values if " " in value]
        if self.credential is not None:
            values.append(self.credential.secret.reveal())
        return tuple(value for value in values if value)


def resolve_spec(settings: Settings, vendor: Vendor, role: Role) -> RemoteSpec:
    """Puts one provider together. Blocking: reads the auth profiles.

    Raises `ProviderAuthError` when there is no key that may be sent to the endpoint, though it needs
    one, and `ProviderUnavailableError` for an address or header that cannot be used, and where an
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
    """What `models.providers` says of it, or its public one. Raises `ProviderUnavailableError`."""
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
    """The configured model was meant for the primary; a fallback takes its own default, if it has one."""
    asked = configured if role == "primary" or vendor.model is None else None
    model = vendor.bare_model(asked)
    if model is None:
        raise ProviderUnavailableError(
            f"No model is named for {vendor.name}, which has no default of its own.",
            remedy="Set model to the name of an embedding model that the server has.",
        )
    return model


def _provider_headers(sources: KeySources) -> Mapping[str, str]:
    """`models.providers.*.headers`, less its credentials where those do not belong."""
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
