"""Which batch jobs the chosen provider offers, or why none are used.

Owns the vendors' documented limits of a job. Nothing is sent and no library imported before a job is
to be written.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Final

from config.settings import Settings
from providers.batch.interface import BatchAccess, BatchHost, JobLimits
from providers.choosing import Choice
from providers.errors import ProviderError
from providers.interface import Role
from providers.remote.embedder import fingerprint_of
from providers.remote.spec import RemoteSpec, resolve_spec
from providers.remote.vendors import VENDORS, Vendor

_DAY_S: Final = 24 * 3600.0
_LIMITS: Final[dict[str, JobLimits]] = {
    # Gemini names no number of lines; this is what its jobs were always given.
    "gemini": JobLimits(max_items=50_000, max_bytes=2_000_000_000, window_s=2 * _DAY_S),
    "openai": JobLimits(max_items=50_000, max_bytes=200_000_000, window_s=_DAY_S),
    "voyage": JobLimits(max_items=100_000, max_bytes=1_000_000_000, window_s=_DAY_S / 2),
}


def find_batch(settings: Settings, choice: Choice) -> BatchAccess | str:
    """Batch jobs of the provider in use, or the reason why there are none, for `status`.

    Blocking: reads the auth profiles.
    """
    if not settings.search.remote.batch.enabled:
        return "Batch jobs are switched off (remote.batch.enabled)."
    name = choice.primary.provider if choice.primary else "none"
    limits = _LIMITS.get(name)
    if limits is None:
        return f"There are no batch jobs for {name}. All texts get ordinary requests."
    vendor = VENDORS[name]
    role: Role = "fallback" if choice.fell_back else "primary"
    try:
        spec = resolve_spec(settings, vendor, role)
    except ProviderError as error:
        return error.message
    return BatchAccess(
        fingerprint=fingerprint_of(spec),
        limits=limits,
        place=spec.place,
        open=partial(_open, settings, vendor, role),
    )


def _open(settings: Settings, vendor: Vendor, role: Role) -> BatchHost:
    spec: RemoteSpec = resolve_spec(settings, vendor, role)
    host: BatchHost = importlib.import_module(f"providers.batch.{vendor.name}").open_host(spec)
    return host
