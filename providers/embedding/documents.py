"""One run of embedding many texts: its work list, its workers, refusals of size, delivery as answers arrive."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec

from config.errors import ErrorKind
from config.runtime.logs import Log
from providers.embedding.requester import Requester
from providers.embedding.sizing import LearnedLimits, Size, fill, size_of, total
from providers.errors import (
    ProviderError,
    ProviderInputTooLargeError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTimeoutError,
)
from providers.interface import Fingerprint, InputLimits, ItemError, Vector

_log = Log()


class WorkList:
    """`limits` is called for every request, since refusals of the host change it."""

    def __init__(
        self, sizes: Sequence[Size], positions: Sequence[int], limits: Callable[[], InputLimits]
    ) -> None:
        self._sizes = sizes
        self._limits = limits
        self._waiting = deque(positions)
        self._split: deque[list[int]] = deque()
        self._token_cap: int | None = None

    def take(self) -> list[int] | None:
        """Positions of the next request in order, or None if nothing waits."""
        if self._split:
            return self._split.popleft()
        if not self._waiting:
            return None
        count = fill((self._sizes[at] for at in self._waiting), self._current_limits())
        return [self._waiting.popleft() for _ in range(count)]

    def size(self, positions: Sequence[int]) -> Size:
        return total(self._sizes[at] for at in positions)

    def put_back(self, positions: Sequence[int]) -> None:
        """Puts texts back, to be sent in the sizes that the limits allow by then."""
        self._waiting.extendleft(reversed(positions))

    def split(self, positions: Sequence[int]) -> None:
        """Puts texts back as two halves, to be sent next, since one of them spoils the request."""
        half = len(positions) // 2
        self._split.extendleft([list(positions[half:]), list(positions[:half])])

    def shrink(self, positions: Sequence[int]) -> None:
        """Puts texts back; for the rest of this run, requests are at most half the size of this one."""
        self._token_cap = max(1, self.size(positions).tokens // 2)
        self.put_back(positions)

    def _current_limits(self) -> InputLimits:
        limits = self._limits()
        if self._token_cap is None:
            return limits
        capped = min(self._token_cap, limits.max_request_tokens)
        return msgspec.structs.replace(limits, max_request_tokens=capped)


class Delivery(msgspec.Struct, frozen=True):
    """Part of a run's result: `items[i]` belongs to the text at `positions[i]` of the call."""

    positions: tuple[int, ...]
    items: tuple[Vector | ItemError, ...]
    fingerprint: Fingerprint


OnBatch = Callable[[Delivery], Awaitable[None]]
OnSend = Callable[[Sequence[int]], Awaitable[None]]
"""Gets the positions of the texts that are about to be sent."""


class DocumentRun:
    """Use once: `await DocumentRun(...).execute()`."""

    def __init__(
        self,
        texts: Sequence[str],
        on_batch: OnBatch,
        requester: Requester,
        learned: LearnedLimits,
        *,
        proven: bool,
        on_send: OnSend | None = None,
    ) -> None:
        self._texts = texts
        self._on_send = on_send
        self._on_batch = on_batch
        self._requester = requester
        self._learned = learned
        self._blank = [at for at, text in enumerate(texts) if not text.strip()]
        waiting = [at for at, text in enumerate(texts) if text.strip()]
        self._job = WorkList([size_of(text) for text in texts], waiting, self._limits)
        self._error: Exception | None = None
        self._delivering = anyio.Lock()
        self._settings_are_fine = False
        self.proven = anyio.Event()
        if proven:
            self.proven.set()

    async def execute(self) -> None:
        """Raises the first error that ended the run, after what was under way has been delivered."""
        if self._blank:
            blank = ItemError(kind=ErrorKind.INVALID_PARAMS, message="The text is blank.")
            await self._deliver(self._blank, (blank,) * len(self._blank))
        async with anyio.create_task_group() as group:
            group.start_soon(self._work)
            # One at a time until it is known that the host takes requests of this size, so that a
            # wrong key or size is refused once, not four times.
            await self.proven.wait()
            for _ in range(self._requester.options.at_once - 1):
                group.start_soon(self._work)
        if self._error is not None:
            raise self._error

    async def _work(self) -> None:
        try:
            while self._error is None and (positions := self._job.take()) is not None:
                await self._handle(positions)
        except Exception as error:  # noqa: BLE001 - raised again by `execute`, outside the group
            self._error = self._error or error
        finally:
            self.proven.set()

    async def _handle(self, positions: list[int]) -> None:
        if self._on_send is not None:
            await self._on_send(positions)
        try:
            batch = await self._requester.documents(
                [self._texts[at] for at in positions],
                timeout_s=self._requester.time_for(self._job.size(positions).tokens),
            )
        except ProviderInputTooLargeError as error:
            await self._too_large(positions, error)
        except ProviderRejectedError as error:
            await self._rejected(positions, error)
        except (ProviderTimeoutError, ProviderRateLimitError):
            if len(positions) == 1:
                raise
            self._job.shrink(positions)
        else:
            self._learned.accepted(self._job.size(positions), counted=batch.tokens)
            if self._learned.settled:
                self.proven.set()
            await self._deliver(positions, batch.items)

    async def _too_large(self, positions: list[int], error: ProviderInputTooLargeError) -> None:
        if len(positions) == 1:
            await self._fail(positions, error)
        elif error.reason == "input":
            self._job.split(positions)
        else:
            self._learned.refused(self._job.size(positions), error.reason, error.limit)
            self._job.put_back(positions)
            _log.info("embedding.size_learned", reason=error.reason, limits=self._learned.to_dict())

    async def _rejected(self, positions: list[int], error: ProviderRejectedError) -> None:
        await self._check_settings()
        if len(positions) == 1:
            await self._fail(positions, error)
        else:
            self._job.split(positions)

    async def _check_settings(self) -> None:
        """Returns if the texts caused the rejection; raises it if the settings did."""
        if self._settings_are_fine:
            return
        await self._requester.check()
        self._settings_are_fine = True

    async def _fail(self, positions: list[int], error: ProviderError) -> None:
        await self._deliver(positions, (ItemError(kind=error.kind, message=error.message),))

    async def _deliver(
        self, positions: Sequence[int], items: tuple[Vector | ItemError, ...]
    ) -> None:
        errors = sum(isinstance(item, ItemError) for item in items)
        self._requester.counters.item_errors += errors
        self._requester.counters.documents += len(items) - errors
        fingerprint = self._requester.embedder.fingerprint
        async with self._delivering:
            await self._on_batch(Delivery(tuple(positions), items, fingerprint))

    def _limits(self) -> InputLimits:
        return self._learned.apply(self._requester.embedder.limits)
