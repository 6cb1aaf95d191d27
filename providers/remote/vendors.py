"""What is known about each remote vendor: names, addresses, defaults, limits, and how it is told queries from documents."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from config.settings import ModelProviderSettings, Settings
from config.source.located import quote
from providers.endpoints import Endpoint
from providers.errors import ProviderUnavailableError
from providers.interface import InputLimits, Purpose, Role

Wire = Literal["openai", "gemini", "voyage"]


_LIBRARIES: Final[dict[Wire, str]] = {
    "openai": "openai",
    "gemini": "google.genai",
    "voyage": "voyageai",
}


class Vendor(msgspec.Struct, frozen=True):
    """One vendor, or one server of the user's own. `name` is its id in `memorySearch.provider`."""

    name: str
    label: str
    key_variable: str | None = None
    base_url: str | None = None
    """None: there is none unless one is configured."""
    model: str | None = None
    """Taken when none is configured; None: one has to be."""
    other_config_key: str | None = None
    """Its name in `models.providers` and in auth profiles, where that is not `name`."""
    key_home: str | None = None
    """The only address that may have the key of the variable or of a profile; None: see `credentials`."""
    needs_key: bool = True
    cut_from: str | None = None
    """A configured base URL is cut off where this part of its path begins."""
    ends_in: str = ""
    """Added to a base URL that does not end in it."""
    other_prefixes: tuple[str, ...] = ()
    """Stripped from a configured model after `name/`, each once, in this order."""
    auth_header: str = "authorization"
    auth_scheme: str = "Bearer "
    wire: Wire = "openai"

    @property
    def config_key(self) -> str:
        """Its name in `models.providers` and in auth profiles."""
        return self.other_config_key or self.name

    @property
    def modules(self) -> tuple[str, ...]:
        """What must be importable."""
        return (_LIBRARIES[self.wire], "httpx2", "numpy")

    @property
    def endpoint(self) -> Endpoint | None:
        return self.endpoint_at(self.base_url) if self.base_url else None

    def endpoint_at(self, base_url: str) -> Endpoint:
        """A configured base URL as this vendor's wire needs it. Raises `ProviderUnavailableError`."""
        return Endpoint.parse(base_url, cut_from=self.cut_from, ends_in=self.ends_in)

    def bare_model(self, model: str | None) -> str | None:
        """The model's name as the host knows it; the vendor's default for none or an empty one."""
        name = (model or "").strip()
        for prefix in (f"{self.name}/", *self.other_prefixes):
            name = name.removeprefix(prefix)
        return name or self.model


_ROWS = (
    Vendor(
        "openai", "OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1", "text-embedding-3-small"
    ),
    Vendor(
        "gemini",
        "Gemini",
        "GEMINI_API_KEY",
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-embedding-001",
        other_config_key="google",
        cut_from="/openai",
        other_prefixes=("models/", "google/"),
        auth_header="x-goog-api-key",
        auth_scheme="",
        wire="gemini",
    ),
    Vendor(
        "voyage",
        "Voyage",
        "VOYAGE_API_KEY",
        "https://api.voyageai.com/v1",
        "voyage-4-large",
        wire="voyage",
    ),
    Vendor("mistral", "Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-embed"),
    Vendor(
        "deepinfra",
        "DeepInfra",
        "DEEPINFRA_API_KEY",
        "https://api.deepinfra.com/v1/openai",
        "BAAI/bge-m3",
    ),
    Vendor(
        "ollama",
        "Ollama",
        "OLLAMA_API_KEY",
        "http://127.0.0.1:11434",
        "nomic-embed-text",
        key_home="https://ollama.com",
        needs_key=False,
        # The chat gateway speaks Ollama's own wire, whose base URL has no /v1.
        ends_in="/v1",
        other_prefixes=("ollama/",),
    ),
    Vendor(
        "lmstudio",
        "LM Studio",
        "LM_API_TOKEN",
        "http://localhost:1234",
        "text-embedding-nomic-embed-text-v1.5",
        needs_key=False,
        cut_from="/api/",
        ends_in="/v1",
    ),
    Vendor(
        "openai-compatible",
        "The OpenAI-compatible server",
        needs_key=False,
        other_prefixes=("openai-compatible/",),
    ),
)
VENDORS: dict[str, Vendor] = {row.name: row for row in _ROWS}

_OPENAI_APIS = frozenset({"openai-completions", "openai-responses"})
"""Values of `models.providers.*.api` whose servers have OpenAI's embeddings beside their chat."""
_OTHER_WIRES = {
    "bedrock": "Amazon Bedrock has a wire and a login of its own",
    "github-copilot": "GitHub Copilot is reached by a login that only the chat gateway has",
}
_UNKNOWN = "No provider of this id is known here (adapters of the chat gateway's plugins are not)"
_MEANT = {"google": "gemini", "google-gemini": "gemini"}


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
    key = "memorySearch.provider" if role == "primary" else "memorySearch.fallback"
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


_MIB = 1 << 20

# A host of which only the protocol is known, not the limits: small enough for a server that embeds
# some thousand tokens a second to answer within one request's time.
_COMPATIBLE = InputLimits(
    max_input_tokens=8192, max_items=512, max_request_tokens=64_000, max_request_bytes=8 * _MIB
)

_VOYAGE_REQUEST_TOKENS = (
    ("voyage-4-lite", 1_000_000),
    ("voyage-3.5-lite", 1_000_000),
    ("voyage-4-large", 120_000),
    ("voyage-4", 320_000),
    ("voyage-3.5", 320_000),
    ("voyage-2", 320_000),
)


def limits_of(vendor: Vendor, model: str, *, official: bool) -> InputLimits:
    """The documented limits of a model at the vendor's own address, or cautious ones elsewhere.

    A sixth of the tokens of a request is kept in reserve, because they are only estimated.
    """
    if not official:
        # Gemini's hundred are part of the protocol rather than of one host.
        most = 100 if vendor.wire == "gemini" else _COMPATIBLE.max_items
        return msgspec.structs.replace(_COMPATIBLE, max_items=most)
    match vendor.name:
        case "openai":
            return _limits(8191 if "ada-002" in model else 8192, 2048, 300_000, 32 * _MIB)
        case "gemini":
            wide = model.startswith("gemini-embedding-2")
            return _limits(8192 if wide else 2048, 100, 240_000, 16 * _MIB)
        case "voyage":
            budget = next((n for name, n in _VOYAGE_REQUEST_TOKENS if model.startswith(name)), 0)
            own = 16_000 if model.startswith("voyage-3-lite") else 32_000
            return _limits(own, 1000, budget or 120_000, 32 * _MIB)
        case "mistral":
            return _limits(8192, 512, 16_000, 8 * _MIB)
        case _:
            return _COMPATIBLE


def _limits(input_tokens: int, items: int, tokens: int, size: int) -> InputLimits:
    return InputLimits(
        max_input_tokens=input_tokens,
        max_items=items,
        max_request_tokens=tokens * 5 // 6,
        max_request_bytes=size,
    )


_DEFAULT_TYPES: dict[Wire, dict[Purpose, str]] = {
    "openai": {},
    "gemini": {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"},
    "voyage": {"query": "query", "document": "document"},
}
_BY_TASK_TYPE = ("gemini-embedding-001", "gemini-embedding-exp", "text-embedding", "embedding-001")


def input_type(wire: Wire, model: str, purpose: Purpose, configured: str | None) -> str | None:
    """The request's input or task type; None sends none."""
    if _prompted(wire, model):
        return None
    return configured or _DEFAULT_TYPES[wire].get(purpose)


def prompt(wire: Wire, model: str, purpose: Purpose, configured: str | None) -> str:
    """What stands before each text; empty for most models.

    A configured query type is the prompt's task (`search result`, `question answering` ...).
    """
    if not _prompted(wire, model):
        return ""
    if purpose == "document":
        return "title: none | text: "
    return f"task: {configured or 'search result'} | query: "


def _prompted(wire: Wire, model: str) -> bool:
    return wire == "gemini" and not model.startswith(_BY_TASK_TYPE)
