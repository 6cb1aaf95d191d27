"""How the provider `local` is assessed and made; this module is what `providers.registry` calls.

Whether llama.cpp is installed is looked up, never tried: it is loaded in the worker only.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Final

from providers.errors import ProviderError, ProviderUnavailableError
from providers.interface import Embedder
from providers.local.embedder import LocalEmbedder, LocalSpec
from providers.local.model import Wishes
from providers.local.models import locate
from providers.local.places import cache_dir, shown
from providers.registry import Candidate, ProviderRequest, unusable

_MODULES: Final = ("llama_cpp", "numpy")


def assess(request: ProviderRequest) -> Candidate:
    missing = next((name for name in _MODULES if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        return unusable("local", _not_installed(missing))
    reference = request.settings.search.local.model_path
    try:
        path = locate(reference, cache_dir(request.settings))
    except ProviderError as error:
        return unusable("local", error)
    name = shown(reference)
    return Candidate(
        provider="local",
        usable=True,
        reason=f"The model is {path}." if path else f"The model {name} is yet to be fetched.",
        model=name,
    )


def create(request: ProviderRequest) -> Embedder:
    search, primary = request.settings.search, request.role == "primary"
    wishes = Wishes(
        dimensions=search.output_dimensionality if primary else None,
        query_prompt=search.query_input_type if primary else None,
        document_prompt=search.document_input_type if primary else None,
        chunk_tokens=search.chunking.tokens,
    )
    reference, directory = search.local.model_path, cache_dir(request.settings)
    return LocalEmbedder(LocalSpec(reference, shown(reference), directory, wishes, os.environ))


def _not_installed(module: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"Local embeddings are not installed ({module} is missing).",
        remedy='Run: pip install "memory-gateway[local]"',
    )
