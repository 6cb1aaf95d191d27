"""The vendors of embeddings, one row each: names, address, key, wire format, limits.

Only data. `providers.remote` acts on it; the ids that may be configured, and the variables that may contain a key,
follow from it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

WireName = Literal["openai", "gemini", "voyage"]


class WireFormat(msgspec.Struct, frozen=True):
    """The format of a vendor's requests and answers, which `providers.remote.wires` speaks."""

    name: WireName
    query_type: str | None = None
    """The input type that marks the text of a request as a query, unless one is configured."""
    document_type: str | None = None


OPENAI: Final = WireFormat("openai")
GEMINI: Final = WireFormat("gemini", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT")
VOYAGE: Final = WireFormat("voyage", "query", "document")

_MIB: Final = 1 << 20
_DAY_S: Final = 24 * 3600.0


class ModelLimits(msgspec.Struct, frozen=True):
    """The limits of a request at the vendor's own address, as documented; what is not documented is cautious."""

    input_tokens: int = 8192
    """The most tokens of one text."""
    items: int = 512
    tokens: int = 64_000
    """The most tokens of all texts together."""
    size_bytes: int = 8 * _MIB
    models: str = ""
    """The start of the names of the models that these limits apply to."""


class JobLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one batch job, as the vendor documents them."""

    max_items: int
    max_bytes: int
    """The largest file that may be uploaded."""
    window_s: float
    """The vendor gives up a job this long after its creation."""
    library: str | None = None
    """The module that has to be importable, if jobs use the vendor's own library."""


class Vendor(msgspec.Struct, frozen=True):
    """One vendor, or one server of the user's own. `name` is its id in `provider`."""

    name: str
    label: str
    key_variable: str | None = None
    base_url: str | None = None
    """None: there is no address unless one is configured."""
    model: str | None = None
    """The model if none is configured; None: one has to be configured."""
    other_config_key: str | None = None
    """Its name in `models.providers` and in auth profiles, where that is not `name`."""
    key_home: str | None = None
    """The only address that may be sent the key of the variable or of a profile; None: see `credentials`."""
    needs_key: bool = True
    cut_from: str | None = None
    """A configured base URL is cut off where this part of its path begins."""
    ends_in: str = ""
    """Added to a base URL that does not end in it."""
    other_prefixes: tuple[str, ...] = ()
    """Stripped from a configured model after `name/`, each once, in this order."""
    auth_header: str = "authorization"
    auth_scheme: str = "Bearer "
    wire: WireFormat = OPENAI
    limits: tuple[ModelLimits, ...] = ()
    """The first row that names the model counts; without any the limits are cautious ones."""
    jobs: JobLimits | None = None
    """None: it has no batch jobs, or none that are supported here."""

    @property
    def config_key(self) -> str:
        """Its name in `models.providers` and in auth profiles."""
        return self.other_config_key or self.name

    def bare_model(self, model: str | None) -> str | None:
        """Returns the model's name as the host knows it; the vendor's default if none or an empty one is given."""
        name = (model or "").strip()
        for prefix in (f"{self.name}/", *self.other_prefixes):
            name = name.removeprefix(prefix)
        return name or self.model


_ROWS: Final = (
    Vendor(
        "openai",
        "OpenAI",
        "OPENAI_API_KEY",
        "https://api.openai.com/v1",
        "text-embedding-3-small",
        limits=(
            ModelLimits(8191, 2048, 300_000, 32 * _MIB, models="text-embedding-ada-002"),
            ModelLimits(8192, 2048, 300_000, 32 * _MIB),
        ),
        jobs=JobLimits(max_items=50_000, max_bytes=200_000_000, window_s=_DAY_S),
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
        wire=GEMINI,
        limits=(
            ModelLimits(8192, 100, 240_000, 16 * _MIB, models="gemini-embedding-2"),
            ModelLimits(2048, 100, 240_000, 16 * _MIB),
        ),
        # Gemini documents no limit of lines; this one has worked so far.
        jobs=JobLimits(
            max_items=50_000,
            max_bytes=2_000_000_000,
            window_s=2 * _DAY_S,
            library="google.genai",
        ),
    ),
    Vendor(
        "voyage",
        "Voyage",
        "VOYAGE_API_KEY",
        "https://api.voyageai.com/v1",
        "voyage-4-large",
        wire=VOYAGE,
        limits=(
            ModelLimits(32_000, 1000, 1_000_000, 32 * _MIB, models="voyage-4-lite"),
            ModelLimits(32_000, 1000, 1_000_000, 32 * _MIB, models="voyage-3.5-lite"),
            ModelLimits(32_000, 1000, 120_000, 32 * _MIB, models="voyage-4-large"),
            ModelLimits(32_000, 1000, 320_000, 32 * _MIB, models="voyage-4"),
            ModelLimits(32_000, 1000, 320_000, 32 * _MIB, models="voyage-3.5"),
            ModelLimits(32_000, 1000, 320_000, 32 * _MIB, models="voyage-2"),
            ModelLimits(16_000, 1000, 120_000, 32 * _MIB, models="voyage-3-lite"),
            ModelLimits(32_000, 1000, 120_000, 32 * _MIB),
        ),
        jobs=JobLimits(max_items=100_000, max_bytes=1_000_000_000, window_s=_DAY_S / 2),
    ),
    Vendor(
        "mistral",
        "Mistral",
        "MISTRAL_API_KEY",
        "https://api.mistral.ai/v1",
        "mistral-embed",
        limits=(ModelLimits(tokens=16_000),),
    ),
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
VENDORS: Final[dict[str, Vendor]] = {row.name: row for row in _ROWS}

OTHER_KEY_VARIABLES: Final = ("GOOGLE_API_KEY", "HF_TOKEN")
"""Gemini's other variable, and the token for downloads of local models."""
KEY_VARIABLES: Final = (
    *(row.key_variable for row in _ROWS if row.key_variable is not None),
    *OTHER_KEY_VARIABLES,
)
"""Variables that may hold a provider's API key or a token for downloads."""
