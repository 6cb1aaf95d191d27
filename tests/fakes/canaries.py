"""Secrets that must never be seen again, and the search for them in all outputs."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

_SHOWN = 14
"""The characters of a canary that prove a leak, even when it was cut."""


def canary(place: str, form: str = "sk-{}") -> str:
    """Returns a secret of its own for every place, in the form in which vendors make them."""
    return form.format("canary" + hashlib.sha256(place.encode()).hexdigest()[:34])


def leaks(planted: Mapping[str, str], outputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns the place of each secret that was found, whole, in part or in base64, with the output."""
    return [
        (place, output)
        for place, secret in planted.items()
        for output, text in outputs.items()
        if any(form in text for form in _forms(secret))
    ]


def files_below(root: Path, *, without: Iterable[Path] = ()) -> dict[str, str]:
    """Returns every file, by name, as text in which each byte is a character."""
    own = set(without)
    found = {}
    # `rglob` raises where a directory goes away meanwhile; this leaves it out.
    there = [Path(place, name) for place, _, names in os.walk(root) for name in names]
    for path in sorted(there):
        if path in own or path.is_symlink() or not path.is_file():
            continue
        with suppress(FileNotFoundError):  # it was a temporary one
            found[str(path)] = path.read_bytes().decode("latin-1")
    return found


def _forms(secret: str) -> tuple[str, ...]:
    start = secret.find("canary")
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return secret[start : start + _SHOWN], encoded[:-2]
