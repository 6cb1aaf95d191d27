"""Where the configured model is, and what can be told of it without loading anything."""

from __future__ import annotations

import os

from config.settings import Settings
from providers.errors import ProviderError
from providers.local.model import context_of
from providers.local.models import locate
from providers.local.models.configured import configured_models


def shown(reference: str) -> str:
    """A reference without the query of its address, which may hold a secret."""
    return reference.partition("?")[0] if "://" in reference else reference


def longest_text(settings: Settings) -> int | None:
    """The longest text that the local model reads, in its own tokens. Blocking, some milliseconds.

    None where its file is not there or does not say.
    """
    try:
        models = configured_models(settings, os.environ)
        path = locate(models.reference, models.cache_dir)
        return context_of(path) if path else None
    except ProviderError:
        return None  # told when the model is to be used
