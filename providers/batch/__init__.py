"""Embedding a large backlog through a vendor's asynchronous batch jobs.

Knows how to write, start, watch and read one job. The floor above decides which texts go
into jobs, and remembers them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

import msgspec

from config.settings import Settings
from config.vendors import VENDORS, JobLimits, Vendor
from providers.choosing import Choice, is_installed
from providers.installing import library_missing
from providers.provider_interface import BatchHost, Fingerprint, ProviderError, Role
from providers.remote.embedder import fingerprint_of
from providers.remote.spec import resolve_spec


class BatchAccess(msgspec.Struct, frozen=True):
    """The access to batch jobs of the provider in use; nothing is opened yet."""

    fingerprint: Fingerprint
    limits: JobLimits
    place: str
    open: Callable[[], BatchHost]
    """Blocking: reads the auth profiles and imports the vendor's library. Raises `ProviderError`."""


def find_batch(settings: Settings, choice: Choice) -> BatchAccess | str:
    """Returns the batch jobs of the provider in use, or the reason why there are none, for `status`.

    Blocking: reads the auth profiles.
    """
    if not settings.search.remote.batch.enabled:
        return "Batch jobs are switched off (remote.batch.enabled)."
    name = choice.primary.provider if choice.primary else "none"
    vendor = VENDORS.get(name)
    if vendor is None or vendor.jobs is None:
        return f"{name} has no batch jobs; all texts are sent in ordinary requests."
    if (library := vendor.jobs.library) is not None and not is_installed(library):
        return f"{library_missing(vendor, library)}"
    role: Role = "fallback" if choice.fell_back else "primary"
    try:
        spec = resolve_spec(settings, vendor, role)
    except ProviderError as error:
        return error.message
    return BatchAccess(
        fingerprint=fingerprint_of(spec),
        limits=vendor.jobs,
        place=spec.place,
        open=partial(open_jobs_host, settings, vendor, role),
    )


def open_jobs_host(settings: Settings, vendor: Vendor, role: Role) -> BatchHost:
    spec = resolve_spec(settings, vendor, role)
    match vendor.wire.name:
        case "openai":
            from providers.batch.openai_jobs import OpenAIBatches  # noqa: PLC0415

            return OpenAIBatches(spec)
        case "gemini":
            from providers.batch.gemini_jobs import GeminiBatches  # noqa: PLC0415

            return GeminiBatches(spec)
        case "voyage":
            from providers.batch.openai_jobs import VoyageBatches  # noqa: PLC0415

            return VoyageBatches(spec)
        case unknown:
            assert_never(unknown)
