"""Which provider of embeddings is chosen and why, its key, its local model, and the libraries of vector search."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backends.builtin.store.opening import vector_libraries
from config.paths import auth_profile_paths
from config.settings import Settings
from gateway.doctor.finding import Finding, Severity, sentence
from providers.choosing import Choice, choose
from providers.installing import install_command
from providers.local.models import configured_models, locate
from providers.local.models.cache import check_magic
from providers.provider_errors import ProviderError
from providers.provider_interface import ProviderCandidate
from providers.remote.credentials import load

_PROVIDER_KEY: Final = "provider"


def check_provider(settings: Settings) -> Iterator[Finding]:
    choice = choose(settings)
    if choice.primary is None:
        yield from _without(choice)
    else:
        yield _with(choice, choice.primary)
    yield from _fallback(choice, settings.search.fallback)
    paths = dict.fromkeys(auth_profile_paths(settings.state_dir, settings.agent_dir))
    for problem in load(tuple(paths)).problems:
        yield Finding(
            check="provider",
            severity="warning",
            cause=sentence(problem),
            fix="Let the chat gateway write its auth profiles again, or fix the file.",
        )


def _without(choice: Choice) -> Iterator[Finding]:
    if choice.requested == "none":
        yield Finding(check="provider", severity="ok", cause=choice.reason, place=_PROVIDER_KEY)
        return
    named = choice.requested != "auto"
    severity: Severity = "warning" if named or choice.keys_in_vain else "note"
    yield Finding(
        check="provider",
        severity=severity,
        cause=choice.reason,
        place=_PROVIDER_KEY,
        fix=choice.remedy,
    )
    if not named:
        yield from (_refused(one, "warning") for one in choice.keys_in_vain)


def _with(choice: Choice, primary: ProviderCandidate) -> Finding:
    if choice.fell_back is not None:
        cause = choice.reason
        fix = choice.remedy
        return Finding(
            check="provider", severity="warning", cause=cause, place=_PROVIDER_KEY, fix=fix
        )
    parts = (primary.provider, primary.model, primary.endpoint)
    who = ", ".join(part for part in parts if part)
    return Finding(
        check="provider", severity="ok", cause=f"{who}. {primary.reason}", place=_PROVIDER_KEY
    )


def _fallback(choice: Choice, name: str) -> Iterator[Finding]:
    """A fallback that is configured and could not stand in."""
    for one in choice.candidates:
        if one.provider == name and not one.usable:
            yield _refused(one, "warning", "fallback")


def _refused(one: ProviderCandidate, severity: Severity, place: str | None = None) -> Finding:
    return Finding(
        check="provider",
        severity=severity,
        cause=f"{one.provider} cannot be used: {one.reason}",
        place=place,
        fix=one.remedy,
    )


_KEY: Final = "local.modelPath"
_HEAD_BYTES: Final = 16


def check_model(settings: Settings) -> Iterator[Finding]:
    """No finding unless local embeddings are asked for."""
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
        check_magic(file.read(_HEAD_BYTES), str(path), path.suffix)


def _present(path: Path) -> Finding:
    size = path.stat().st_size / 1e6
    return Finding(
        check="model",
        severity="ok",
        cause=f"The model is on this machine ({size:,.0f} MB).",
        place=str(path),
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


_LIBRARIES_KEY: Final = "store.vector"


def check_libraries(settings: Settings) -> Iterator[Finding]:
    """Vectors need numpy; the two others make search fast, and each stands in for the other.

    Where no provider makes vectors, that they are missing weakens nothing.
    """
    vector = settings.search.store.vector
    if not vector.enabled:
        cause = "Vector search is switched off in the configuration."
        yield Finding(
            check="libraries", severity="ok", cause=cause, place=f"{_LIBRARIES_KEY}.enabled"
        )
        return
    problems = vector_libraries(settings)
    named = vector.extension_path is not None
    if any(problems) and not named and choose(settings).primary is None:
        cause = "Libraries of vector search are missing; by keywords alone nothing needs them."
        yield Finding(check="libraries", severity="note", cause=cause, fix=_installing())
        return
    if problems.sqlite_vec:
        yield Finding(
            check="libraries",
            severity="warning",
            cause=sentence(problems.sqlite_vec),
            place=f"{_LIBRARIES_KEY}.extensionPath" if named else None,
            fix="Correct the path, or remove the key: the package brings its own."
            if named
            else _installing(),
        )
    for problem in (problems.numpy, problems.simsimd):
        if problem:
            yield Finding(
                check="libraries",
                severity="warning",
                cause=sentence(problem),
                fix=_installing(),
            )
    if not any(problems):
        cause = "sqlite-vec, numpy and SimSIMD can be loaded."
        yield Finding(check="libraries", severity="ok", cause=cause)


def _installing() -> str:
    return f"`{install_command('vector')}` installs what is missing."
