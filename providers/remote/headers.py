"""Configured request headers: merging, checking, and telling secret ones from the rest.

Names are compared without case. Nothing here knows where headers are sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from providers.errors import ProviderUnavailableError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_SECRET = re.compile(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """One mapping with lower-case names; a later layer wins. Framing headers are left out.

    Raises `ProviderUnavailableError` for a name or value that HTTP cannot carry.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            _check(name, value)
            merged[name.lower()] = value.strip()
    return {name: value for name, value in merged.items() if name not in _FRAMING}


def is_secret(name: str) -> bool:
    """Whether a header of this name is taken for a credential."""
    return _SECRET.search(name) is not None


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not is_secret(name)}


def only_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if is_secret(name)}


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value.strip()):
        raise ProviderUnavailableError(
            f"The configured header {name!r} cannot be sent: it holds characters that HTTP forbids.",
            remedy="Correct remote.headers or models.providers.<name>.headers.",
        )
