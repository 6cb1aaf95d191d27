"""How the provider `local` is assessed and made; this module is a `providers.interface.Provider`.

Whether llama.cpp is installed is looked up, never tried: it is loaded in the worker only.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Final

from providers.errors import ProviderError, ProviderUnavailableError
from providers.installing import install_remedy
from providers.interface import Candidate, Embedder, ProviderRequest, unusable
from providers.local.embedder import LocalEmbedder, LocalSpec
from providers.local.model import Wishes
from providers.local.models import locate
from providers.local.models.configured import configured_models
from providers.local.models.references import FileReference, parse_reference
from providers.local.places import shown

_MODULES: Final = ("llama_cpp", "numpy")


def assess(request: ProviderRequest) -> Candidate:
    missing = next((name for name in _MODULES if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        return unusable("local", _not_installed(missing))
    models = configured_models(request.settings, os.environ)
    try:
        path = locate(models.reference, models.cache_dir)
    except ProviderError as error:
        return unusable("local", error)
    name = shown(models.reference)
    lacks = None if path else _lacks(models.reference)
    return Candidate(
        provider="local",
        usable=True,
        reason=lacks or f"The model is {path}.",
        model=name,
        lacks=lacks,
    )


def _lacks(reference: str) -> str:
    is_file = isinstance(parse_reference(reference), FileReference)
    return f"The model {shown(reference)} {'is not there' if is_file else 'is yet to be fetched'}."


def create(request: ProviderRequest) -> Embedder:
    search, primary = request.settings.search, request.role == "primary"
    wishes = Wishes(
        dimensions=search.output_dimensionality if primary else None,
        query_prompt=search.query_input_type if primary else None,
        document_prompt=search.document_input_type if primary else None,
        chunk_tokens=search.chunking.tokens,
    )
    models = configured_models(request.settings, os.environ)
    name = shown(models.reference)
    spec = LocalSpec(models.reference, name, models.cache_dir, wishes, models.environment)
    return LocalEmbedder(spec)


def _not_installed(module: str) -> ProviderUnavailableError:
    return ProviderUnavailableError(
        f"Local embeddings are not installed ({module} is missing).",
        remedy=install_remedy("local"),
    )
