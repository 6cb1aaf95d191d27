"""What a host's refusal, or its silence, means for a download: which error, and what to do. Pure."""

from __future__ import annotations

import ssl
from typing import Final

import httpx2

from providers.causes import causes
from providers.endpoints import Origin
from providers.errors import (
    ProviderError,
    ProviderRateLimitError,
    ProviderTimeoutError,
    ProviderTransientError,
)
from providers.local.models.errors import ModelAccessError, ModelHostError, ModelNotFoundError
from providers.local.models.hub import Hub
from providers.local.models.references import HubReference, RemoteReference

_CANNOT_BE_REACHED: Final = (
    "Check the network, the proxy (HTTPS_PROXY) and the address (HF_ENDPOINT); the next attempt "
    "goes on where this one was."
)


def refusal(response: httpx2.Response, reference: RemoteReference, hub: Hub) -> ProviderError:
    """The error for an answer that brings no model."""
    status = response.status_code
    place = f"{Origin.of(str(response.url))} answered {status} for {reference}."
    if status in (401, 403):
        return _denied(response, reference, hub)
    if status in (404, 410):
        return ModelNotFoundError(
            f"There is no {reference} at {Origin.of(str(response.url))}.",
            remedy="Check the name (memorySearch.local.modelPath).",
            status=status,
        )
    if status == 429:
        return ProviderRateLimitError(place, status=status, retry_after_s=_retry_after(response))
    if status >= 500 or status == 408:
        return ProviderTransientError(place, status=status, retry_after_s=_retry_after(response))
    return ModelHostError(place, remedy="Check memorySearch.local.modelPath.", status=status)


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
    """The error for a connection that failed, at whatever time."""
    host = Origin.of(url)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error)):
        return ModelHostError(
            f"{host} has a certificate that is not valid, or not trusted here.",
            remedy="Check the address and the clock; SSL_CERT_FILE names further authorities.",
        )
    if isinstance(error, httpx2.TimeoutException):
        return ProviderTimeoutError(f"{host} sent nothing for too long.", remedy=_CANNOT_BE_REACHED)
    name = type(error).__name__
    return ProviderTransientError(
        f"{host} cannot be reached or hung up ({name}).", remedy=_CANNOT_BE_REACHED
    )


def _retry_after(response: httpx2.Response) -> float | None:
    """In seconds; a date is not worth a clock here, the usual backoff does."""
    header = response.headers.get("retry-after", "").strip()
    return float(header) if header.isascii() and header.isdigit() else None
