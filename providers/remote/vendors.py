"""What is known about each remote vendor: names, addresses, defaults, documented limits.

Tables only. How a vendor's wire format is spoken stands in the module of the vendor's name.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from providers.endpoints import Endpoint
from providers.interface import InputLimits

RemoteName = Literal["openai", "gemini", "voyage"]


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """One vendor. `config_key` is its name in `models.providers` and in auth profiles."""

    name: RemoteName
    label: str
    config_key: str
    key_variable: str
    base_url: str
    cut_from: str | None = None
    """A part of a configured base URL from which on it is cut off."""
    model: str
    prefixes: tuple[str, ...]
    """Stripped from a configured model, each once, in this order."""
    auth_header: str
    auth_scheme: str = ""
    modules: tuple[str, ...]
    """What must be importable."""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.parse(self.base_url)

    def bare_model(self, model: str | None) -> str:
        """The model's name as the host knows it; the vendor's default for none or an empty one."""
        name = (model or "").strip()
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        return name or self.model


VENDORS: dict[RemoteName, Vendor] = {
    "openai": Vendor(
        name="openai",
        label="OpenAI",
        config_key="openai",
        key_variable="OPENAI_API_KEY",
        base_url="https://api.openai.com/v1",
        model="text-embedding-3-small",
        prefixes=("openai/",),
        auth_header="authorization",
        auth_scheme="Bearer ",
        modules=("openai", "httpx2", "numpy"),
    ),
    "gemini": Vendor(
        name="gemini",
        label="Gemini",
        config_key="google",
        key_variable="GEMINI_API_KEY",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        cut_from="/openai",
        model="gemini-embedding-001",
        prefixes=("models/", "gemini/", "google/"),
        auth_header="x-goog-api-key",
        modules=("google.genai", "httpx2", "numpy"),
    ),
    "voyage": Vendor(
        name="voyage",
        label="Voyage",
        config_key="voyage",
        key_variable="VOYAGE_API_KEY",
        base_url="https://api.voyageai.com/v1",
        model="voyage-4-large",
        prefixes=("voyage/",),
        auth_header="authorization",
        auth_scheme="Bearer ",
        modules=("voyageai", "httpx2", "numpy"),
    ),
}

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

    Of the tokens of a request a sixth is kept in reserve, because they are only estimated.
    """
    if not official:
        # Gemini's hundred are part of the protocol rather than of one host.
        most = 100 if vendor.name == "gemini" else _COMPATIBLE.max_items
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


def _limits(input_tokens: int, items: int, tokens: int, size: int) -> InputLimits:
    return InputLimits(
        max_input_tokens=input_tokens,
        max_items=items,
        max_request_tokens=tokens * 5 // 6,
        max_request_bytes=size,
    )
