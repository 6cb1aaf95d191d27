"""Whether the model of local embeddings lies on this disk and is one. Blocks; asks only the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.settings import Settings
from gateway.doctor.finding import Finding
from providers.errors import ProviderError
from providers.local.models import locate
from providers.local.models.configured import configured_models
from providers.local.models.places import check_magic

_KEY: Final = "memorySearch.local.modelPath"
_HEAD_BYTES: Final = 16


def check_model(settings: Settings) -> Iterator[Finding]:
    """Nothing to tell unless local embeddings are asked for."""
    if "local" not in {settings.search.provider, settings.search.fallback}:
        return
    models = configured_models(settings, os.environ)
    try:
        path = locate(models.reference, models.cache_dir)
        if path is not None:
            _check_head(path)
    except ProviderError as error:
        yield Finding(
            check="model", severity="warning", cause=error.message, place=_KEY, fix=error.remedy
        )
        return
    except OSError as error:
        yield Finding(
            check="model",
            severity="warning",
            cause=f"The model cannot be read: {error.strerror}.",
            place=str(path),
            fix="Give this user permission to read it (chmod u+r).",
        )
        return
    yield _absent(models.reference) if path is None else _present(path)


def _check_head(path: Path) -> None:
    with path.open("rb") as file:
        check_magic(file.read(_HEAD_BYTES), str(path))


def _present(path: Path) -> Finding:
    size = path.stat().st_size / 1e6
    return Finding(
        check="model", severity="ok", cause=f"The model is there ({size:,.0f} MB).", place=str(path)
    )


def _absent(reference: str) -> Finding:
    if reference.startswith(("hf:", "http://", "https://")):
        return Finding(
            check="model",
            severity="note",
            cause="The model is not on this machine; it is downloaded when it is first needed.",
            place=reference,
            fix="`memory-gateway models pull` downloads it now.",
        )
    return Finding(
        check="model",
        severity="warning",
        cause="The model file does not exist.",
        place=reference,
        fix=f"Correct {_KEY}; `memory-gateway models list` names those that are there.",
    )
