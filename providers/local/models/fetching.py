"""The download of one model: interrupted downloads continue, the file is checked and published in one step."""

from __future__ import annotations

import random
import re
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Final

import httpx2
import msgspec
from anyio import to_thread

from config.runtime.files import sha256_of
from providers import proxies
from providers.endpoints import Origin
from providers.local.models.cache import ModelFiles, ModelRecord, check_magic, storage_errors
from providers.local.models.references import (
    Hub,
    HubReference,
    ModelAccessError,
    ModelDamagedError,
    ModelFormatError,
    ModelHostError,
    ModelNotFoundError,
    ModelStorageError,
    RemoteReference,
)
from providers.provider_interface import (
    CHECK_CERTIFICATE,
    UNTRUSTED,
    ProviderError,
    ProviderRateLimitError,
    ProviderTimeoutError,
    ProviderTransientError,
    causes,
)
from providers.resilience import Clock, RetryPolicy

_CANNOT_BE_REACHED: Final = (
    "Check the network, the proxy (HTTPS_PROXY) and the address (HF_ENDPOINT); the next attempt "
    "goes on where this one was."
)


def refusal(response: httpx2.Response, reference: RemoteReference, hub: Hub) -> ProviderError:
    """Returns the error for an answer without a model."""
    status = response.status_code
    place = f"{Origin.of(str(response.url))} answered {status} for {reference}."
    if status in (401, 403):
        return _denied(response, reference, hub)
    if status in (404, 410):
        return ModelNotFoundError(
            f"There is no {reference} at {Origin.of(str(response.url))}.",
            remedy="Check the name (local.modelPath).",
            status=status,
        )
    if status == 429:
        return ProviderRateLimitError(place, status=status, retry_after_s=_retry_after(response))
    if status >= 500 or status == 408:
        return ProviderTransientError(place, status=status, retry_after_s=_retry_after(response))
    return ModelHostError(place, remedy="Check local.modelPath.", status=status)


def _denied(
    response: httpx2.Response, reference: RemoteReference, hub: Hub
) -> ModelAccessError | ModelNotFoundError:
    status = response.status_code
    code = response.headers.get("x-error-code", "")
    if hub.token_for(str(response.url)) is not None:
        remedy = "HF_TOKEN was sent: check that it is valid and may read this repository."
    else:
        remedy = "If it is private, set HF_TOKEN to a token that may read it."
    if isinstance(reference, HubReference):
        if code == "RepoNotFound":
            message = f"There is no public repository {reference.repository} at {hub.endpoint}."
            return ModelNotFoundError(message, remedy=remedy, status=status)
        if code == "GatedRepo":
            page = f"{hub.endpoint}/{reference.repository}"
            remedy = f"Accept its conditions at {page} and set HF_TOKEN."
    host = Origin.of(str(response.url))
    return ModelAccessError(f"{host} denies {reference} ({status}).", remedy=remedy, status=status)


def transport_error(error: Exception, url: str) -> ProviderError:
    """Returns the error for a connection that failed."""
    host = Origin.of(url)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error)):
        return ModelHostError(f"{host} {UNTRUSTED}", remedy=CHECK_CERTIFICATE)
    if isinstance(error, httpx2.TimeoutException):
        return ProviderTimeoutError(f"{host} sent nothing for too long.", remedy=_CANNOT_BE_REACHED)
    name = type(error).__name__
    return ProviderTransientError(
        f"{host} cannot be reached or hung up ({name}).", remedy=_CANNOT_BE_REACHED
    )


def _retry_after(response: httpx2.Response) -> float | None:
    """Returns the wait in seconds; a date is ignored, so the usual backoff applies."""
    header = response.headers.get("retry-after", "").strip()
    return float(header) if header.isascii() and header.isdigit() else None


_NAME_ADDRESS = "Name the final address in local.modelPath."
_MAKE_ROOM = "Make room there, or set local.modelCacheDir elsewhere."
_OTHER_HOST = "Try again later, or from another host (HF_ENDPOINT)."
_PIECE_BYTES = 64 << 10
"""At most this much is lost when a connection drops."""
TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_MAX_REDIRECTS = 5
_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_SATISFIABLE = 416


@dataclass(frozen=True, slots=True)
class Answer:
    """The beginning of an answer; its body has not been read."""

    start: int | None
    """The position of the body's first byte in the file; None: the file does not reach so far."""
    total: int | None
    """The size of the file."""
    sha256: str | None
    validator: str | None
    """Stays the same as long as the host's file does."""
    _response: httpx2.Response

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the body. Raises `ProviderTransientError` when the host hangs up."""
        try:
            async for piece in self._response.aiter_raw(_PIECE_BYTES):
                yield piece
        except (httpx2.HTTPError, OSError) as error:
            raise transport_error(error, str(self._response.url)) from None


def open_client() -> httpx2.AsyncClient:
    """Opens a client. Blocking for some milliseconds: loads certificates."""
    headers = {"accept-encoding": "identity", "user-agent": "memory-gateway"}
    return proxies.open_client(timeout=TIMEOUT, headers=headers)


@asynccontextmanager
async def ask(
    client: httpx2.AsyncClient, reference: RemoteReference, hub: Hub, *, start: int = 0
) -> AsyncIterator[Answer]:
    """Asks the host for the file from byte `start` on. Raises `ProviderError`."""
    url = hub.url_of(reference)
    linked = httpx2.Headers()
    for _ in range(_MAX_REDIRECTS + 1):
        response = await _send(client, url, hub, start)
        try:
            for name in ("x-linked-etag", "x-linked-size", "x-repo-commit"):
                linked.setdefault(name, response.headers.get(name, ""))
            if not response.has_redirect_location:
                yield _read(response, linked, reference, hub)
                return
            url = _next(url, response.headers["location"])
        finally:
            await response.aclose()
    raise ModelHostError(
        f"{Origin.of(hub.url_of(reference))} redirects {reference} in a loop.",
        remedy=_NAME_ADDRESS,
    )


async def _send(client: httpx2.AsyncClient, url: str, hub: Hub, start: int) -> httpx2.Response:
    headers = {"range": f"bytes={start}-"} if start else {}
    token = hub.token_for(url)
    if token is not None:
        headers["authorization"] = f"Bearer {token.reveal()}"
    try:
        return await client.send(client.build_request("GET", url, headers=headers), stream=True)
    except (httpx2.HTTPError, OSError) as error:
        raise transport_error(error, url) from None


def _next(url: str, location: str) -> str:
    """Returns the target of a redirect. Raises `ModelHostError` if that is less safe, or not an address."""
    try:
        target = httpx2.URL(url).join(location)
    except httpx2.InvalidURL:
        target = httpx2.URL()
    allowed = ("https",) if url.startswith("https:") else ("https", "http")
    if target.scheme not in allowed or not target.host:
        raise ModelHostError(
            f"{Origin.of(url)} redirects to what is no {allowed[0]} address.",
            remedy=_NAME_ADDRESS,
        )
    return str(target)


def _read(
    response: httpx2.Response, linked: httpx2.Headers, reference: RemoteReference, hub: Hub
) -> Answer:
    status, headers = response.status_code, response.headers
    if status not in (200, 206, _NOT_SATISFIABLE):
        raise refusal(response, reference, hub)
    if headers.get("content-type", "").startswith("text/html"):
        raise ModelFormatError(
            f"{Origin.of(str(response.url))} sent a web page instead of {reference}.",
            remedy="Name the address of the file itself, not of a page about it.",
        )
    ranged = _RANGE.fullmatch(headers.get("content-range", ""))
    start, total = None, ""
    if status == 200:
        start, total = 0, headers.get("content-length", "")
    elif status == 206 and ranged:
        start, total = _size(ranged["start"], reference), ranged["total"]
    total = linked["x-linked-size"] or total
    etag = linked["x-linked-etag"] or headers.get("etag", "")
    tag = etag.removeprefix("W/").strip('"')
    known = linked["x-linked-etag"] or linked["x-repo-commit"]
    return Answer(
        start=start,
        total=_size(total, reference),
        sha256=tag if known and _SHA256.fullmatch(tag) else None,
        validator=tag or headers.get("last-modified"),
        _response=response,
    )


def _size(text: str, reference: RemoteReference) -> int | None:
    """Returns a number of bytes; None for any other text. Raises `ModelHostError` for a number that no file has."""
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) > _SIZE_DIGITS:
        raise ModelHostError(
            f"The host of {reference} announces a size of {len(text):,} digits.",
            remedy="Check local.modelPath.",
        )
    return int(text)


Progress = Callable[[int, int | None], None]
"""Called with the number of bytes so far, and the size of the model if it is known."""

_POLICY = RetryPolicy(attempts=5, timeout_attempts=5)
_SPARE_BYTES = 64 << 20
"""The space that a download leaves free on the disk."""
_CHECKED_BYTES = 8 << 20
"""The bytes after which the free space is checked again."""
_SIZE_DIGITS = 19
"""The digits of the largest size that a file can have."""


class Fetch:
    """The download of one model. `run` does everything."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        reference: RemoteReference,
        place: ModelFiles,
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
        """Tries until the model is complete; any progress restarts the count of attempts."""
        failures = 0
        while True:
            before = self._place.present_bytes()
            try:
                return await self._attempt()
            except ProviderError as error:
                failures = 1 if self._place.present_bytes() > before else failures + 1
                wait = _POLICY.wait_s(error, failures, random.random())  # noqa: S311 - jitter
                if wait is None:
                    raise
            await self._clock.sleep(wait)

    async def _attempt(self) -> None:
        # The last byte is requested again, so that a complete part is not a special case.
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
        """Returns whether the body continues the part that we have."""
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
        with self._place.open_part() as part:
            part.seek(answer.start or 0)
            await self._write(answer, part)
        await self._finish(record)

    def _check_room(self, answer: Answer) -> None:
        """Checks, if the size is known, that the disk has room for the model."""
        free = shutil.disk_usage(self._place.model.parent).free
        needed = (answer.total or 0) - self._part_bytes() + _SPARE_BYTES
        if needed > free:
            raise ModelStorageError(
                f"{self._reference} needs {needed / 1e6:,.0f} MB in {self._place.model.parent}, "
                f"but only {free / 1e6:,.0f} MB are free.",
                remedy=_MAKE_ROOM,
            )

    async def _write(self, answer: Answer, part: IO[bytes]) -> None:
        """Writes the body: never more than was announced, nor so much that too little space is left on the disk."""
        done = checked = part.tell()
        self._on_progress(done, answer.total)
        async for piece in answer.pieces():
            if done == 0:
                self._check_magic(piece)
            if answer.total is not None and done + len(piece) > answer.total:
                self._place.remove()
                raise ModelDamagedError(
                    f"The host of {self._reference} sends more than the {answer.total:,} bytes that it announced.",
                    remedy=_OTHER_HOST,
                )
            if done - checked >= _CHECKED_BYTES or done == checked:
                checked = done
                await to_thread.run_sync(self._check_reserve, answer)
            await to_thread.run_sync(part.write, piece)
            done += len(piece)
            self._on_progress(done, answer.total)

    def _check_magic(self, head: bytes) -> None:
        """Removes a file of another format altogether, and raises."""
        try:
            check_magic(head, str(self._reference), self._place.model.suffix)
        except ModelFormatError:
            self._place.remove()
            raise

    def _check_reserve(self, answer: Answer) -> None:
        """Raises if the disk is nearly full. A part of unknown total size is removed; any other is continued later."""
        directory = self._place.model.parent
        free = shutil.disk_usage(directory).free
        if free >= _SPARE_BYTES:
            return
        size = "of unknown size" if answer.total is None else f"of {answer.total:,} bytes"
        if answer.total is None:
            self._place.remove()
        raise ModelStorageError(
            f"{self._reference}, {size}, would fill the disk of {directory}: only {free / 1e6:,.0f} MB are free.",
            remedy=_MAKE_ROOM,
        )

    async def _finish(self, announced: ModelRecord) -> None:
        size = self._part_bytes()
        if announced.bytes is not None and size < announced.bytes:
            raise ProviderTransientError(
                f"The host sent {size:,} of {announced.bytes:,} bytes of {self._reference}."
            )
        if not size:
            self._check_magic(b"")
        digest = await to_thread.run_sync(sha256_of, self._place.part)
        if announced.bytes not in (None, size) or announced.sha256 not in (None, digest):
            self._place.remove()
            raise ModelDamagedError(
                f"What arrived is not the {self._reference} that the host announced: "
                f"{size:,} bytes with SHA-256 {digest}, not {announced.bytes or size:,} bytes with "
                f"{announced.sha256 or digest}.",
                remedy=_OTHER_HOST,
            )
        self._place.write_record(msgspec.structs.replace(announced, bytes=size, sha256=digest))
        await to_thread.run_sync(self._place.publish)
