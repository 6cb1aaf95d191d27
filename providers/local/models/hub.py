"""The hub as the environment describes it: its address, the token for it, and whether to use it.

HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to huggingface_hub. That library itself is
not used: since 1.18 it begins a download anew in every process. The token belongs to the endpoint: it
goes to no other origin, and never in clear over a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self
from urllib.parse import quote, urlsplit

import msgspec

from config.paths import variable
from config.settings import Secret
from providers.endpoints import Origin
from providers.local.models.errors import ModelReferenceError
from providers.local.models.references import HubReference, RemoteReference

_DEFAULT_ENDPOINT = "https://huggingface.co"
_TRUE = frozenset({"1", "ON", "YES", "TRUE"})


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: str
    """Without a slash at its end."""
    token: Secret | None
    offline: bool

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Raises `ModelReferenceError` for an HF_ENDPOINT that is no address."""
        named = variable(environment, "HF_ENDPOINT")
        token = variable(environment, "HF_TOKEN")
        return cls(
            endpoint=_address(named[1]) if named else _DEFAULT_ENDPOINT,
            token=Secret(token[1]) if token else None,
            offline=environment.get("HF_HUB_OFFLINE", "").strip().upper() in _TRUE,
        )

    def url_of(self, reference: RemoteReference) -> str:
        """Where a model is fetched from."""
        if not isinstance(reference, HubReference):
            return reference.url
        revision = quote(reference.revision, safe="")
        file = quote(reference.file)
        return f"{self.endpoint}/{quote(reference.repository)}/resolve/{revision}/{file}"

    def token_for(self, url: str) -> Secret | None:
        """The token if this address may see it."""
        target = Origin.of(url)
        if target != Origin.of(self.endpoint):
            return None
        return self.token if target.scheme == "https" or target.private else None


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise ModelReferenceError(
            "HF_ENDPOINT is no http or https address.",
            remedy=f"Correct it, or unset it for {_DEFAULT_ENDPOINT}.",
        )
    return text.rstrip("/")
