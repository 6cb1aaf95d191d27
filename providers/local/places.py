"""Where the configured model is, and what can be told of it without loading anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from config.settings import Settings
from providers.errors import ProviderError
from providers.local.model import context_of
from providers.local.models import locate

_DEFAULT_CACHE: Final = Path("memory-gateway") / "models"


def cache_dir(settings: Settings) -> Path:
    """Where downloaded models are kept: as configured, or in the user's cache."""
    if settings.search.local.model_cache_dir is not None:
        return settings.search.local.model_cache_dir
    home = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative values ignored.
    root = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return root / _DEFAULT_CACHE


def shown(reference: str) -> str:
    """A reference without the query of its address, which may hold a secret."""
    return reference.partition("?")[0] if "://" in reference else reference


def longest_text(settings: Settings) -> int | None:
    """The longest text that the local model reads, in its own tokens. Blocking, some milliseconds.

    None where its file is not there or does not say.
    """
    try:
        path = locate(settings.search.local.model_path, cache_dir(settings))
        return context_of(path) if path else None
    except ProviderError:
        return None  # told when the model is to be used
