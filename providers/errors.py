"""Every way in which embedding can fail, as types that the retry policy and the caller branch on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from config.errors import ErrorKind, MemoryGatewayError

SizeReason = Literal["items", "tokens", "bytes", "input"]
"""What was too large: the number of texts, their tokens, the body's bytes, or one single text."""


class ProviderError(MemoryGatewayError):
    """Base of this floor's errors.

    `retryable`: the same request may succeed when it is sent again soon.
    `final`: nothing but a change on the user's or the host's side will help; the circuit opens at
    once. `status` is the HTTP status, if there was one; `retry_after_s` what the host asked for.
    """

    kind = ErrorKind.PROVIDER_TRANSIENT
    retryable: ClassVar[bool] = False
    final: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.retry_after_s = retry_after_s


class ProviderAuthError(ProviderError):
    """No key was found, or the host refused the one it got."""

    kind = ErrorKind.PROVIDER_AUTH
    final = True


class ProviderQuotaError(ProviderError):
    """The account is used up: money, a daily allowance. Waiting some seconds changes nothing."""

    kind = ErrorKind.PROVIDER_QUOTA
    final = True


class ProviderRateLimitError(ProviderError):
    """Too much at a time; the host is healthy and takes more later."""

    kind = ErrorKind.PROVIDER_RATE_LIMITED
    retryable = True


class ProviderTransientError(ProviderError):
    """The host or the way to it is broken just now."""

    kind = ErrorKind.PROVIDER_TRANSIENT
    retryable = True


class ProviderTimeoutError(ProviderTransientError):
    """No complete answer came in time."""


class ProviderNotReadyError(ProviderError):
    """It cannot answer yet, because it is still being set up; nothing is wrong with it."""


class ProviderInputTooLargeError(ProviderError):
    """The request was refused for its size. `limit` is the host's own number, when it said one."""

    kind = ErrorKind.PROVIDER_INPUT_TOO_LARGE

    def __init__(
        self,
        message: str,
        *,
        reason: SizeReason,
        limit: int | None = None,
        remedy: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, status=status)
        self.reason: SizeReason = reason
        self.limit = limit


class ProviderBadResponseError(ProviderError):
    """The host answered, but not with what was asked for."""

    kind = ErrorKind.PROVIDER_BAD_RESPONSE
    retryable = True


class ProviderRedirectError(ProviderBadResponseError):
    """The host sent us elsewhere. Not followed, so that no key and no text leaves with it."""

    retryable = False
    final = True


class ProviderUnavailableError(ProviderError):
    """The provider cannot be used as configured: library, model, address, certificate."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE
    final = True


class ProviderRejectedError(ProviderError):
    """The host will not do this very request: one of the texts, or the settings, displease it."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE


class CircuitOpenError(ProviderError):
    """Nothing was sent, because the host failed before. `cause` is that failure, repeated."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE

    def __init__(self, cause: ProviderError, *, wait_s: float) -> None:
        when = f"It is tried again in {wait_s:.0f} s" if wait_s > 0 else "It is being tried now"
        super().__init__(
            f"{when}; the last failure was: {cause.message}",
            remedy=cause.remedy,
            status=cause.status,
            retry_after_s=wait_s,
        )
        self.cause = cause


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error itself, then what caused it or was being handled, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
