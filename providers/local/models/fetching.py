"""Fetching one model into its place: continued where it was left, checked, published in one step.

The part grows in order and is never rewritten, so its size says where to go on, after a dropped
connection as well as after a killed process. It is continued only if the host still has the same file.
Then length and SHA-256 are checked. The caller holds the lock of the place.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from typing import IO

import httpx2
from anyio import to_thread

from providers.errors import ProviderError, ProviderTransientError
from providers.local.models.answers import Answer, ask
from providers.local.models.errors import ModelDamagedError, ModelStorageError
from providers.local.models.hub import Hub
from providers.local.models.places import ModelRecord, Place, check_magic, storage_errors
from providers.local.models.references import RemoteReference
from providers.resilience.clock import Clock
from providers.resilience.retry import RetryPolicy

Progress = Callable[[int, int | None], None]
"""Bytes that are there, and the size of the model if it is known."""

_POLICY = RetryPolicy(attempts=5, timeout_attempts=5)
_SPARE_BYTES = 64 << 20
"""What a download leaves free on the disk."""


class Fetch:
    """One model on its way. `run` does everything."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        reference: RemoteReference,
        place: Place,
        hub: Hub,
        *,
        clock: Clock,
        on_progress: Progress,
    ) -> None:
        self._client = client
        self._reference = reference
        self._place = place
        self._hub = hub
        self._clock = clock
        self._on_progress = on_progress

    async def run(self) -> None:
        """Raises `ProviderError`."""
        with storage_errors(self._place):
            continued = self._place.part.exists()
            try:
                await self._persevere()
            except ModelDamagedError:
                if not continued:
                    raise
                await self._persevere()

    async def _persevere(self) -> None:
        """Tries until it is there; any progress makes the host worth another row of attempts."""
        failures = 0
        while True:
            before = self._place.held()
            try:
                return await self._attempt()
            except ProviderError as error:
                failures = 1 if self._place.held() > before else failures + 1
                wait = _POLICY.wait_s(error, failures, random.random())  # noqa: S311 - jitter
                if wait is None:
                    raise
            await self._clock.sleep(wait)

    async def _attempt(self) -> None:
        # The last byte is asked for again: a part that is whole already needs no case of its own.
        start = max(0, self._part_bytes() - 1)
        async with ask(self._client, self._reference, self._hub, start=start) as answer:
            if answer.start == 0 or self._continues(answer, start):
                return await self._receive(answer)
        self._place.part.unlink()
        async with ask(self._client, self._reference, self._hub) as answer:
            if answer.start == 0:
                return await self._receive(answer)
        raise ProviderTransientError(f"The host of {self._reference} sent only a part of it.")

    def _part_bytes(self) -> int:
        return self._place.part.stat().st_size if self._place.part.exists() else 0

    def _continues(self, answer: Answer, start: int) -> bool:
        """Whether the body is the rest of the file of which we have a part."""
        record = self._place.record()
        return (
            record is not None
            and answer.start == start
            and answer.validator is not None
            and (answer.validator, answer.total) == (record.validator, record.bytes)
        )

    async def _receive(self, answer: Answer) -> None:
        record = ModelRecord(
            reference=str(self._reference),
            bytes=answer.total,
            sha256=answer.sha256,
            validator=answer.validator,
        )
        self._check_room(answer)
        if answer.start == 0:
            self._place.part.unlink(missing_ok=True)
            self._place.write_record(record)
        with self._place.part.open("r+b" if answer.start else "wb") as part:
            part.seek(answer.start or 0)
            await self._write(answer, part)
        await self._finish(record)

    def _check_room(self, answer: Answer) -> None:
        """Before the first byte is written, as far as the size is known."""
        free = shutil.disk_usage(self._place.model.parent).free
        needed = (answer.total or 0) - self._part_bytes() + _SPARE_BYTES
        if needed > free:
            raise ModelStorageError(
                f"{self._reference} needs {needed / 1e6:,.0f} MB in {self._place.model.parent}, "
                f"but only {free / 1e6:,.0f} MB are free.",
                remedy="Make room there, or set memorySearch.local.modelCacheDir elsewhere.",
            )

    async def _write(self, answer: Answer, part: IO[bytes]) -> None:
        done = part.tell()
        self._on_progress(done, answer.total)
        async for piece in answer.pieces():
            if done == 0:
                check_magic(piece, str(self._reference))
            await to_thread.run_sync(part.write, piece)
            done += len(piece)
            self._on_progress(done, answer.total)

    async def _finish(self, announced: ModelRecord) -> None:
        size = self._part_bytes()
        if announced.bytes is not None and size < announced.bytes:
            raise ProviderTransientError(
                f"The host sent {size:,} of {announced.bytes:,} bytes of {self._reference}."
            )
        digest = await to_thread.run_sync(_digest, self._place)
        if announced.bytes not in (None, size) or announced.sha256 not in (None, digest):
            self._place.remove()
            raise ModelDamagedError(
                f"What arrived is not the {self._reference} that the host announced: "
                f"{size:,} bytes with SHA-256 {digest}, not {announced.bytes or size:,} bytes with "
                f"{announced.sha256 or digest}.",
                remedy="Try again later, or from another host (HF_ENDPOINT).",
            )
        record = ModelRecord(
            reference=announced.reference,
            bytes=size,
            sha256=digest,
            validator=announced.validator,
        )
        self._place.write_record(record)
        await to_thread.run_sync(self._place.publish)


def _digest(place: Place) -> str:
    with place.part.open("rb") as part:
        return hashlib.file_digest(part, "sha256").hexdigest()
