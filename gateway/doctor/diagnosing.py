"""Runs all checks at the same time, each within its own deadline, and puts the findings in order.

A check that hangs or fails is itself a finding; the others go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

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
from gateway.doctor.providers import check_libraries, check_model, check_provider
from gateway.doctor.surroundings import (
    check_disk,
    check_hooks,
    check_qmd,
    check_service,
    check_watches,
)
from gateway.version import VERSION

_log = Log()

Look = Callable[[Settings], Awaitable[Iterable[Observation]]]
_TIMEOUT_S: Final = 20.0


class _Entry(NamedTuple):
    check: Check
    look: Look


def _blocking(look: Callable[[Settings], Iterable[Observation]]) -> Look:
    """Makes a check that waits for the disk run in a thread of its own."""

    async def run(settings: Settings) -> list[Observation]:
        return await run_sync(lambda: list(look(settings)), abandon_on_cancel=True)

    return run


_CHECKS: Final = (
    _Entry("configuration", _blocking(check_configuration)),
    _Entry("provider", _blocking(check_provider)),
    _Entry("secrets", _blocking(check_secrets)),
    _Entry("places", _blocking(check_places)),
    _Entry("index", _blocking(check_index)),
    _Entry("libraries", _blocking(check_libraries)),
    _Entry("model", _blocking(check_model)),
    _Entry("qmd", check_qmd),
    _Entry("transcripts", _blocking(check_transcripts)),
    _Entry("disk", _blocking(check_disk)),
    _Entry("watches", _blocking(check_watches)),
    _Entry("owner", check_owner),
    _Entry("service", _blocking(check_service)),
    _Entry("hooks", _blocking(check_hooks)),
    _Entry("canary", check_canary),
)


async def diagnose(read_settings: Callable[[], Settings]) -> Diagnosis:
    """Runs all checks. Whatever is wrong becomes a finding and is never raised. `read_settings` may block."""
    try:
        settings = await run_sync(read_settings)
    except MemoryGatewayError as error:
        return _diagnosis(None, (one.by("configuration") for one in explain_failure(error)))
    found: dict[Check, list[Observation]] = {}
    async with anyio.create_task_group() as tasks:
        for entry in _CHECKS:
            tasks.start_soon(partial(_look, entry, settings, found))
    ordered = (one.by(entry.check) for entry in _CHECKS for one in found[entry.check])
    return _diagnosis(settings, ordered)


async def _look(entry: _Entry, settings: Settings, found: dict[Check, list[Observation]]) -> None:
    try:
        with anyio.fail_after(_TIMEOUT_S):
            found[entry.check] = list(await entry.look(settings))
    except TimeoutError:
        cause = f"This could not be checked within {_TIMEOUT_S:g} s; a disk may not answer."
        found[entry.check] = [finding.error(cause)]
    except Exception as fault:  # noqa: BLE001 - one broken check must not hide what others found
        _log.debug("check failed", check=entry.check, exc_info=True)
        found[entry.check] = [_unfinished(lone_error(fault))]


def _unfinished(fault: BaseException) -> Observation:
    fault = denied(fault) or fault
    if isinstance(fault, MemoryGatewayError):
        return finding.error(fault.message, fix=fault.remedy)
    cause = f"This could not be checked: {type(fault).__name__}: {fault}."
    return finding.warning(cause)


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
