"""QMD with the builtin index behind it: one memory that always answers within one deadline and says which one did."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from msgspec.structs import replace

from backends.interface import (
    BackendStatus,
    Fallback,
    ForgetReport,
    ForgetRequest,
    Hit,
    IndexUnavailableError,
    ProgressCallback,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SearchRequest,
    SyncReport,
    SyncRequest,
    Trial,
    out_of_reach,
)
from backends.qmd.backend import QmdBackend, open_qmd
from backends.qmd.process import QmdUnavailableError
from backends.transcripts.agent_transcripts import is_conversation
from config.runtime.logs import Log
from config.runtime.tasks import Backoff
from config.settings import ExtraPath, Settings

if TYPE_CHECKING:
    from backends.builtin.backend import BuiltinBackend

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 8.0
_log = Log()
RESERVE_SHARE: Final = 0.25
LONGEST_RESERVE_S: Final = 1.0
"""The part of the deadline that is kept for the builtin index, which needs milliseconds."""
_NO_TAGS: Final = "QMD knows no tags"
LEAST_BUILTIN_S: Final = 1.0
"""The time that the builtin index gets even if the configured deadline is shorter."""
MANUAL: Final = "manual"


class Recovery:
    """The memory of QMD's last failure."""

    def __init__(self) -> None:
        self._pause = Backoff(FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self.reason: str | None = None
        """The reason why QMD did not answer the last question; None if it did, or if none was asked."""

    def check(self) -> None:
        """Raises the last failure again while QMD is to be left alone."""
        if self.reason is not None and self._pause.left_s:
            raise QmdUnavailableError("not_ready", self.reason)

    def failed(self, error: QmdUnavailableError) -> bool:
        """Remembers a failure; returns whether it is a new one."""
        is_new = self.reason is None
        self.reason = str(error)
        if error.cause == "timeout":
            self._pause.failed()
        return is_new

    def succeeded(self) -> None:
        self.reason = None
        self._pause.succeeded()


def combine(qmd: BackendStatus, builtin: BackendStatus, reason: str | None) -> BackendStatus:
    """Returns one status of both. `reason`: why QMD does not answer now; None if it does, or has not been asked yet."""
    details = replace(builtin.details, qmd=qmd.details.qmd)
    if reason is None and not (details.qmd and details.qmd.available):
        reason = qmd.issues[0] if qmd.issues else "QMD is not available."
    answering, other = (qmd, builtin) if reason is None else (builtin, qmd)
    weaknesses = answering.weaknesses
    if reason is not None:
        details = replace(details, fallback=Fallback(origin="qmd", reason=reason))
        weaknesses = (replaced(reason), *weaknesses)
    return replace(
        answering,
        issues=tuple(dict.fromkeys((*answering.issues, *other.issues))),
        syncing=answering.syncing or other.syncing,
        recent_syncs=(*answering.recent_syncs, *other.recent_syncs),
        weaknesses=weaknesses,
        details=details,
    )


def replaced(reason: str) -> str:
    return f"The builtin index answers in place of QMD: {reason}"


OpenBuiltin = Callable[[Settings], AbstractAsyncContextManager["BuiltinBackend"]]


class FallbackBackend:
    """One memory made of two backends. Make it with `open_with_fallback`."""

    def __init__(self, settings: Settings, qmd: QmdBackend, builtin: BuiltinBackend) -> None:
        self._looks = settings.search.sync.on_search
        self._timeout_s = settings.qmd.limits.timeout_ms / 1000
        self._qmd = qmd
        self._builtin = builtin
        self._recovery = Recovery()
        self.embed, self.retire = builtin.embed, builtin.retire  # QMD has vectors of its own
        self.overview, self.transcript_grew = builtin.overview, builtin.transcript_grew

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Raises IndexUnavailableError only when neither can answer.

        While notes are unavailable, the builtin index answers: it has their text, and QMD reads them from the disk.
        """
        started = time.monotonic()
        try:
            if request.tags:  # QMD does not know them
                return await self._ask_builtin(request, _NO_TAGS, self._timeout_s)
            away = await self._builtin.away(look=self._looks)
            if away is not None:
                return await self._ask_builtin(request, away, self._timeout_s)
            return await self._ask_qmd(request)
        except QmdUnavailableError as error:
            reason = str(error)
        left_s = max(LEAST_BUILTIN_S, started + self._timeout_s - time.monotonic())
        return await self._ask_builtin(request, reason, left_s)

    async def read(self, request: ReadRequest) -> ReadAnswer:
        """Needs neither index: reads the files themselves, or the host's conversations."""
        if is_conversation(request.path):
            return await self._builtin.read(request)
        answer = await self._qmd.read(request)
        if answer.status == "not_found":
            absolute = self._qmd.places.absolute(answer.path)
            reason = await self._builtin.out_of_reach(absolute) if absolute else None
            if reason is not None:
                raise out_of_reach(answer.path, reason)
        return answer

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport:
        """Syncs the builtin index now; QMD too if a person asks, otherwise when its own schedule allows."""
        report = await self._builtin.sync(request, progress=progress)
        if not request.force and request.reason != MANUAL:
            self._qmd.sync_later()
            return report
        try:
            await self._qmd.sync(request)
        except QmdUnavailableError as error:
            return replace(report, error=str(error))
        return report

    async def forget(self, request: ForgetRequest) -> ForgetReport:
        """Also brings QMD's exports and its index up to date with the files, and cleans them up."""
        report = await self._builtin.forget(request)
        if not request.remove:
            return report
        try:
            await self._qmd.sync(SyncRequest(reason="forget", force=True))
            remark = "QMD's index was cleaned of what is gone."
        except QmdUnavailableError as error:
            remark = f"QMD's index may still hold it: {error}"
        return replace(report, remarks=(*report.remarks, remark))

    async def status(self) -> BackendStatus:
        return combine(await self._qmd.status(), await self._builtin.status(), await self._reason())

    async def weaknesses(self) -> tuple[str, ...]:
        """Returns why QMD does not answer, then the weaknesses of the builtin index; nothing while QMD answers."""
        behind = await self._builtin.weaknesses()
        reason = await self._reason()
        weak = await self._qmd.weaknesses()
        if reason is None and not weak:
            return ()
        return (replaced(reason or weak[0]), *behind)

    async def try_out(self, timeout_s: float) -> tuple[Trial, ...]:
        """A QMD that answers the trial is asked again from now on."""
        trial = await self._qmd.try_out(timeout_s)
        if trial.outcome == "ok":
            self._recovery.succeeded()
        return (trial, *await self._builtin.try_out(timeout_s))

    async def _ask_qmd(self, request: SearchRequest) -> SearchAnswer:
        self._recovery.check()
        reserve_s = min(LONGEST_RESERVE_S, self._timeout_s * RESERVE_SHARE)
        budget_s = self._timeout_s - reserve_s
        try:
            with anyio.fail_after(budget_s):
                answer = await self._qmd.search(request)
        except TimeoutError:
            error = QmdUnavailableError("timeout", f"QMD did not answer within {budget_s:g} s.")
            self._note(error)
            raise error from None
        except QmdUnavailableError as error:
            self._note(error)
            raise
        self._recovery.succeeded()
        return answer

    async def _reason(self) -> str | None:
        """Returns why QMD does not answer now, as far as is known."""
        return self._recovery.reason or await self._builtin.away(look=False)

    def _note(self, error: QmdUnavailableError) -> None:
        if self._recovery.failed(error):
            _log.warning("the builtin index answers for qmd", reason=str(error), cause=error.cause)

    async def _ask_builtin(
        self, request: SearchRequest, reason: str, timeout_s: float
    ) -> SearchAnswer:
        try:
            with anyio.fail_after(timeout_s):
                answer = await self._builtin.search(request)
        except TimeoutError:
            raise IndexUnavailableError(
                f"QMD cannot answer ({reason}) and the builtin index took longer than "
                f"{timeout_s:.3g} s."
            ) from None
        except IndexUnavailableError as error:
            message = f"QMD cannot answer ({reason}), nor can the builtin index: {error.message}"
            raise IndexUnavailableError(message, remedy=error.remedy) from None
        return replace(
            answer,
            hits=tuple(self._renamed(hit) for hit in answer.hits),
            fallback=Fallback(origin="qmd", reason=reason),
        )

    def _renamed(self, hit: Hit) -> Hit:
        """Files outside the workspace keep the name that QMD's answers give them."""
        shown = self._qmd.places.shown_path(hit.path)
        return hit if shown == hit.path else replace(hit, path=shown)


def builtin_settings(settings: Settings) -> Settings:
    """Returns settings with which the builtin index covers the files of QMD's collections as well."""
    search = settings.search
    paths = tuple(
        ExtraPath(path=one.path, pattern=one.pattern, raw=str(one.path))
        for one in settings.qmd.paths
    )
    extended = replace(search, extra_paths=(*search.extra_paths, *paths))
    return replace(settings, search=extended)


@asynccontextmanager
async def open_with_fallback(
    settings: Settings,
    open_builtin: OpenBuiltin,
    environment: Mapping[str, str] = os.environ,
    *,
    wait_s: float = 0.0,
) -> AsyncIterator[FallbackBackend]:
    """Opens both: QMD in the background, waiting for its start no longer than `wait_s`.

    Raises what `open_builtin` raises.
    """
    async with (
        open_builtin(builtin_settings(settings)) as builtin,
        open_qmd(settings, environment, away=partial(builtin.away, look=True)) as qmd,
    ):
        if wait_s:
            await qmd.settle(wait_s)
        yield FallbackBackend(settings, qmd, builtin)
