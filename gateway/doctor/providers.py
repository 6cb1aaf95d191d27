"""Checks of the chosen provider of embeddings, its key and local model, and of the libraries of vector search."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backends.builtin.store.opening import vector_libraries
from config.paths import auth_profile_paths
from config.settings import Settings
from gateway.doctor import finding
from gateway.doctor.finding import Observation, Severity
from providers.choosing import Choice, choose
from providers.installing import install_command
from providers.local.models import configured_models, locate
from providers.local.models.cache import check_magic
from providers.provider_errors import ProviderError
from providers.provider_interface import ProviderCandidate
from providers.remote.credentials import load

_PROVIDER_KEY: Final = "provider"


def check_provider(settings: Settings) -> Iterator[Observation]:
    choice = choose(settings)
    if choice.primary is None:
        yield from _without(choice)
    else:
        yield _with(choice, choice.primary)
    yield from _fallback(choice, settings.search.fallback)
    paths = dict.fromkeys(auth_profile_paths(settings.state_dir, settings.agent_dir))
    for problem in load(tuple(paths)).problems:
        yield finding.warning(
            problem, fix="Let the chat gateway write its auth profiles again, or fix the file."
        )


def _without(choice: Choice) -> Iterator[Observation]:
    if choice.requested == "none":
        yield finding.ok(choice.reason, _PROVIDER_KEY)
        return
    named = choice.requested != "auto"
    severity: Severity = "warning" if named or choice.keys_in_vain else "note"
    yield finding.observe(severity, choice.reason, _PROVIDER_KEY, fix=choice.remedy)
    if not named:
        yield from map(_refused, choice.keys_in_vain[1:])


def _with(choice: Choice, primary: ProviderCandidate) -> Observation:
    if choice.fell_back is not None:
        return finding.warning(choice.reason, _PROVIDER_KEY, fix=choice.remedy)
    parts = (primary.provider, primary.model, primary.endpoint)
    who = ", ".join(part for part in parts if part)
    return finding.ok(f"{who}. {primary.reason}", _PROVIDER_KEY)


def _fallback(choice: Choice, name: str) -> Iterator[Observation]:
    """Warns of a configured fallback that could not be used."""
    for one in choice.candidates:
        if one.provider == name and not one.usable:
            yield _refused(one, "fallback")


def _refused(one: ProviderCandidate, place: str | None = None) -> Observation:
    return finding.warning(f"{one.provider} cannot be used: {one.reason}", place, fix=one.remedy)


_KEY: Final = "local.modelPath"
_HEAD_BYTES: Final = 16


def check_model(settings: Settings) -> Iterator[Observation]:
    """Checks the local model; yields nothing unless local embeddings are configured."""
    if "local" not in {settings.search.provider, settings.search.fallback}:
        return
    models = configured_models(settings, os.environ)
    try:
        path = locate(models.reference, models.cache_dir)
        if path is not None:
            with path.open("rb") as file:
                check_magic(file.read(_HEAD_BYTES), str(path), path.suffix)
    except ProviderError as error:
        yield finding.warning(error.message, _KEY, fix=error.remedy)
        return
    except OSError as error:
        yield finding.warning(
            f"The model cannot be read: {error.strerror}.",
            error.filename,
            fix="Give this user permission to read it (chmod u+r).",
        )
        return
    yield _absent(models.reference) if path is None else _present(path)


def _present(path: Path) -> Observation:
    size = path.stat().st_size / 1e6
    return finding.ok(f"The model is on this machine ({size:,.0f} MB).", path)


def _absent(reference: str) -> Observation:
    if reference.startswith(("hf:", "http://", "https://")):
        return finding.note(
            "The model is not on this machine; it is downloaded when it is first needed.",
            reference,
            fix="`memory-gateway models pull` downloads it now.",
        )
    return finding.warning(
        "The model file does not exist.",
        reference,
        fix=f"Correct {_KEY}; `memory-gateway models list` names those that are there.",
    )


def check_libraries(settings: Settings) -> Iterator[Observation]:
    """Checks numpy, which vectors need, and two others, which make search fast and can replace each other.

    Without a provider of vectors, missing libraries do no harm.
    """
    vector = settings.search.store.vector
    if not vector.enabled:
        yield finding.ok(
            "Vector search is switched off in the configuration.", "store.vector.enabled"
        )
        return
    problems = vector_libraries(settings)
    named = vector.extension_path is not None
    if any(problems) and not named and choose(settings).primary is None:
        cause = "Libraries of vector search are missing; by keywords alone nothing needs them."
        yield finding.note(cause, fix=_installing())
        return
    if problems.sqlite_vec:
        yield finding.warning(
            problems.sqlite_vec,
            "store.vector.extensionPath" if named else None,
            fix="Correct the path, or remove the key: the package brings its own."
            if named
            else _installing(),
        )
    for problem in (problems.numpy, problems.simsimd):
        if problem:
            yield finding.warning(problem, fix=_installing())
    if not any(problems):
        yield finding.ok("sqlite-vec, numpy and SimSIMD can be loaded.")


def _installing() -> str:
    return f"`{install_command('vector')}` installs what is missing."
