"""Which row of `config.vendors` an id stands for, and what a request to it may hold and says of its texts."""

from __future__ import annotations

from functools import cache

import msgspec

from config.settings import ModelProviderSettings, Settings
from config.source.located import quote
from config.vendors import GEMINI, VENDORS, ModelLimits, Vendor, WireFormat
from providers.endpoints import Endpoint
from providers.provider_errors import ProviderUnavailableError
from providers.provider_interface import InputLimits, Purpose, Role

_OPENAI_APIS = frozenset({"openai-completions", "openai-responses"})
"""Values of `models.providers.*.api` whose servers have OpenAI's embeddings beside their chat."""
_OTHER_WIRES = {
    "bedrock": "Amazon Bedrock has a wire and a login of its own",
    "github-copilot": "GitHub Copilot is reached by a login that only the chat gateway has",
}
_UNKNOWN = "No provider of this id is known here (adapters of the chat gateway's plugins are not)"
_MEANT = {"google": "gemini", "google-gemini": "gemini"}
# A host of which only the protocol is known, not the limits: small enough for a server that embeds
# some thousand tokens a second to answer within one request's time.
_COMPATIBLE = ModelLimits(8192, 512, 64_000, 8 << 20)
_BY_TASK_TYPE = ("gemini-embedding-001", "gemini-embedding-exp", "text-embedding", "embedding-001")


def endpoint_at(vendor: Vendor, base_url: str) -> Endpoint:
    """A configured base URL as this vendor's wire needs it. Raises `ProviderUnavailableError`."""
    return Endpoint.parse(base_url, cut_from=vendor.cut_from, ends_in=vendor.ends_in)


@cache
def home_of(vendor: Vendor) -> Endpoint | None:
    """The vendor's own address; None for a server of the user's."""
    return endpoint_at(vendor, vendor.base_url) if vendor.base_url else None


def find_vendor(name: str, settings: Settings, role: Role) -> Vendor:
    """The row of an id, or one made from its entry in `models.providers`.

    Raises `ProviderUnavailableError` for an id that nobody knows, or whose wire is not spoken here.
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
    """The entry in `models.providers`, whose name counts without case; an empty one if there is none."""
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
    """The key where it stands: `memory.search.provider, line 4`."""
    origin = settings.origins.get(key)
    return origin.detail if origin and origin.detail else key


def limits_of(vendor: Vendor, model: str, *, official: bool) -> InputLimits:
    """The documented limits of a model at the vendor's own address, or cautious ones elsewhere.

    Of documented ones a sixth of the tokens of a request is kept in reserve, because they are only estimated.
    """
    known = next((row for row in vendor.limits if model.startswith(row.models)), None)
    if official and known is not None:
        return _input_limits(known, tokens=known.tokens * 5 // 6)
    # Gemini's hundred are part of the protocol rather than of one host.
    items = 100 if vendor.wire is GEMINI else _COMPATIBLE.items
    limits = _input_limits(_COMPATIBLE, tokens=_COMPATIBLE.tokens)
    return msgspec.structs.replace(limits, max_items=items)


def _input_limits(row: ModelLimits, *, tokens: int) -> InputLimits:
    return InputLimits(
        max_input_tokens=row.input_tokens,
        max_items=row.items,
        max_request_tokens=tokens,
        max_request_bytes=row.size_bytes,
    )


def input_type(
    wire: WireFormat, model: str, purpose: Purpose, configured: str | None
) -> str | None:
    """The request's input or task type; None sends none."""
    if _prompted(wire, model):
        return None
    return configured or (wire.query_type if purpose == "query" else wire.document_type)


def prompt(wire: WireFormat, model: str, purpose: Purpose, configured: str | None) -> str:
    """What stands before each text; empty for most models.

    A configured query type is the prompt's task (`search result`, `question answering` ...).
    """
    if not _prompted(wire, model):
        return ""
    if purpose == "document":
        return "title: none | text: "
    return f"task: {configured or 'search result'} | query: "


def _prompted(wire: WireFormat, model: str) -> bool:
    return wire is GEMINI and not model.startswith(_BY_TASK_TYPE)
