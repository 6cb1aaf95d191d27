"""Runs all checks at the same time, each within its own deadline, and puts the findings in order.

A check that hangs or fails is itself a finding; the others go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import anyio
import msgspec
from anyio.to_thread import run_sync

from config.errors import MemoryGatewayError, lone_error
from config.runtime.files import denied
from config.runtime.logs import Log
from config.settings import Settings
from gateway.doctor import finding
from gateway.doctor.configuration import (
    check_configuration,
    check_places,
    check_secrets,
    explain_failure,
)
from gateway.doctor.finding import Check, Diagnosis, Finding, Observation, judge_findings
from gateway.doctor.index import check_canary, check_index, check_owner, check_transcripts
from gateway.doctor.surroundings import (
    check_disk,
    check_hooks,
    check_libraries,
    check_model,
    check_provider,
    check_qmd,
    check_service,
    check_watches,
)
from gateway.version import VERSION

_log = Log()

Look = Callable[[Settings], Awaitable[Iterable[Observation]]]
_TIMEOUT_S: Final = 20.0


def _blocking(look: Callable[[Settings], Iterable[Observation]]) -> Look:
    """Makes a check that waits for the disk run in a thread of its own."""

    async def run(settings: Settings) -> list[Observation]:
        return await run_sync(lambda: list(look(settings)), abandon_on_cancel=True)

    return run


_CHECKS: Final[Mapping[Check, Look]] = {
    "configuration": _blocking(check_configuration),
    "provider": _blocking(check_provider),
    "secrets": _blocking(check_secrets),
    "places": _blocking(check_places),
    "index": _blocking(check_index),
    "libraries": _blocking(check_libraries),
    "model": _blocking(check_model),
    "qmd": check_qmd,
    "transcripts": _blocking(check_transcripts),
    "disk": _blocking(check_disk),
    "watches": _blocking(check_watches),
    "owner": check_owner,
    "service": _blocking(check_service),
    "hooks": _blocking(check_hooks),
    "canary": check_canary,
}


async def diagnose(read_settings: Callable[[], Settings]) -> Diagnosis:
    """Runs all checks. Whatever is wrong becomes a finding and is never raised. `read_settings` may block."""
    try:
        settings = await run_sync(read_settings)
    except MemoryGatewayError as error:
        return _diagnosis(None, (one.by("configuration") for one in explain_failure(error)))
    found: dict[Check, list[Observation]] = {}
    async with anyio.create_task_group() as tasks:
        for check, look in _CHECKS.items():
            tasks.start_soon(_look, check, look, settings, found)
    ordered = (one.by(check) for check in _CHECKS for one in found[check])
    return _diagnosis(settings, ordered)


async def _look(
    check: Check, look: Look, settings: Settings, found: dict[Check, list[Observation]]
) -> None:
    try:
        with anyio.fail_after(_TIMEOUT_S):
            found[check] = list(await look(settings))
    except TimeoutError:
        cause = f"This could not be checked within {_TIMEOUT_S:g} s; a disk may not answer."
        found[check] = [finding.error(cause)]
    except Exception as fault:  # noqa: BLE001 - one broken check must not hide what others found
        _log.debug("check failed", check=check, exc_info=True)
        found[check] = [_unfinished(lone_error(fault))]


def _unfinished(fault: BaseException) -> Observation:
    fault = denied(fault) or fault
    if isinstance(fault, MemoryGatewayError):
        return finding.error(fault.message, fix=fault.remedy)
    return finding.warning(f"This could not be checked: {type(fault).__name__}: {fault}.")


def _diagnosis(settings: Settings | None, findings: Iterable[Finding]) -> Diagnosis:
    found = tuple(findings)
    folder = settings.notes_folder if settings else None
    return Diagnosis(
        version=VERSION,
        agent_id=settings.agent_id if settings else None,
        notes=str(folder) if folder else msgspec.UNSET,
        status=judge_findings(found),
        findings=found,
    )
