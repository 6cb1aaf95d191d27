"""Whether QMD is there and works, tried in a throw-away home, and whether its models are there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import anyio
from msgspec.structs import replace

from backends.qmd.errors import QmdUnavailableError
from backends.qmd.models import absent, missing_models
from backends.qmd.sidecar import Sidecar, home_of, open_sidecar
from config.settings import Settings
from gateway.doctor.finding import Finding

_KEY: Final = "memory.qmd.command"
_TIMEOUT_S: Final = 15.0


async def check_qmd(settings: Settings) -> list[Finding]:
    """Nothing to tell unless QMD is the backend."""
    if settings.backend != "qmd":
        return []
    with tempfile.TemporaryDirectory(prefix="memory-gateway-doctor-") as folder:
        try:
            with anyio.fail_after(_TIMEOUT_S):
                sidecar = await open_sidecar(replace(settings, state_dir=Path(folder)), os.environ)
        except TimeoutError:
            return [_failed(f"QMD did not answer within {_TIMEOUT_S:g} s.", None)]
        except QmdUnavailableError as error:
            return [_failed(error.message, error.remedy)]
        return [_works(sidecar), *_models(settings, sidecar)]


def _failed(cause: str, fix: str | None) -> Finding:
    """The builtin index answers in its place, so this is no error."""
    return Finding(
        check="qmd",
        severity="warning",
        cause=f"{cause} The builtin index answers instead.",
        place=_KEY,
        fix=fix or "Try the command by hand; `memory.backend` set to builtin does without it.",
    )


def _works(sidecar: Sidecar) -> Finding:
    program = sidecar.program
    cause = f"QMD {program.version_text} works."
    return Finding(check="qmd", severity="ok", cause=cause, place=program.command.argv[-1])


def _models(settings: Settings, sidecar: Sidecar) -> list[Finding]:
    own = home_of(settings).models
    directory = own if own.is_dir() else sidecar.home.models
    missing = missing_models(settings.qmd.search_mode, sidecar.models, directory)
    if not missing:
        return []
    return [
        Finding(
            check="qmd",
            severity="warning",
            cause=f"QMD searches by words only: {absent(missing)}.",
            place=str(own),
            fix="`memory-gateway qmd -- pull` fetches QMD's models.",
        )
    ]
