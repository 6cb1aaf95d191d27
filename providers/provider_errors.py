"""The ways in which embedding can fail, as types for the retry policy and the caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, Literal

from config.errors import ErrorKind, MemoryGatewayError

SizeReason = Literal["items", "tokens", "bytes", "input"]
"""The quantity that was too large: the number of texts, their tokens, the body's bytes, or one single text."""
UNTRUSTED: Final = "has a certificate that is invalid or not trusted on this machine."
CHECK_CERTIFICATE: Final = (
    "Check the address and the clock; SSL_CERT_FILE names further authorities."
)
LONGEST_PAUSE_S: Final = 86_400.0
"""The longest pause, whatever number a host sends."""


class ProviderError(MemoryGatewayError):
    """Base of this floor's errors.

    `retryable`: the same request may succeed when it is sent again soon.
    `final`: only a change on the user's or the host's side will help; the circuit opens at once.
    `status` is the HTTP status, if there was one; `retry_after_s` the wait that the host asked for, a day
    at most.
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
        self.retry_after_s = None if retry_after_s is None else min(retry_after_s, LONGEST_PAUSE_S)


class ProviderAuthError(ProviderError):
    """No key was found, or the host refused the one it got."""

    kind = ErrorKind.PROVIDER_AUTH
    final = True


class ProviderQuotaError(ProviderError):
    """The account has no credit or daily allowance left. Waiting some seconds does not help."""

    kind = ErrorKind.PROVIDER_QUOTA
    final = True


class ProviderRateLimitError(ProviderError):
    """Too many requests at a time; the host is healthy and accepts more later."""

    kind = ErrorKind.PROVIDER_RATE_LIMITED
    retryable = True


class ProviderTransientError(ProviderError):
    """The host, or the connection to it, fails at the moment."""

    kind = ErrorKind.PROVIDER_TRANSIENT
    retryable = True


class ProviderTimeoutError(ProviderTransientError):
    """No complete answer came in time."""


class ProviderNotReadyError(ProviderError):
    """The provider is still being prepared and cannot answer yet; nothing is wrong with it."""


class ProviderInputTooLargeError(ProviderError):
    """The request was refused for its size. `limit` is the number that the host named, if any."""

    kind = ErrorKind.PROVIDER_INPUT_TOO_LARGE

    def __init__(
        self,
        message: str,
        *,
        reason: SizeReason,
        limit: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, status=status)
        self.reason: SizeReason = reason
        self.limit = limit


class ProviderBadResponseError(ProviderError):
    """The host answered, but without the requested content."""

    kind = ErrorKind.PROVIDER_BAD_RESPONSE
    retryable = True


class ProviderRedirectError(ProviderBadResponseError):
    """The host redirected us. Redirects are not followed, so that no key or text goes elsewhere."""

    retryable = False
    final = True


class ProviderUnavailableError(ProviderError):
    """The provider cannot be used as configured: library, model, address, certificate."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE
    final = True


class ProviderRejectedError(ProviderError):
    """The host rejects this request because of one of its texts, or of the settings."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE


class CircuitOpenError(ProviderError):
    """Nothing was sent, because the host failed earlier. `cause` is that failure."""

    kind = ErrorKind.PROVIDER_UNAVAILABLE

    def __init__(self, cause: ProviderError, *, wait_s: float) -> None:
        when = f"The next attempt is in {wait_s:.0f} s" if wait_s > 0 else "It is being tried now"
        super().__init__(
            f"{when}; the last failure was: {cause.message}",
            remedy=cause.remedy,
            status=cause.status,
            retry_after_s=wait_s,
        )
        self.cause = cause


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error itself, then the errors that caused it or were being handled, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
