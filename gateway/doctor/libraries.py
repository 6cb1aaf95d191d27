"""Whether the engines of vector search can be loaded here. Blocks: it imports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from backends.builtin.vectors.probing import probe_libraries
from config.settings import Settings
from gateway.doctor.finding import Finding, sentence
from providers.installing import install_command

_KEY: Final = "memorySearch.store.vector"


def check_libraries(settings: Settings) -> Iterator[Finding]:
    """Vectors need numpy; the two others make search fast, and each stands in for the other."""
    vector = settings.search.store.vector
    if not vector.enabled:
        cause = "Vector search is switched off in the configuration."
        yield Finding(check="libraries", severity="ok", cause=cause, place=f"{_KEY}.enabled")
        return
    problems = probe_libraries(vector.extension_path)
    if problems.sqlite_vec:
        named = vector.extension_path is not None
        yield Finding(
            check="libraries",
            severity="warning",
            cause=sentence(problems.sqlite_vec),
            place=f"{_KEY}.extensionPath" if named else None,
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
    return f"`{install_command('vector')}` installs it."
