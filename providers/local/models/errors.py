"""Every way in which a model cannot be had, as types; each says cause, place and what to do.

No message holds a token, nor the query of an address, which may be one. What is worth trying again is a
`ProviderTransientError` as everywhere on this floor.
"""

from __future__ import annotations

from config.errors import ErrorKind
from providers.errors import ProviderAuthError, ProviderTransientError, ProviderUnavailableError


class ModelReferenceError(ProviderUnavailableError):
    """The text names no model: neither a path nor an address that is understood."""


class ModelNotFoundError(ProviderUnavailableError):
    """There is no such file, on this disk or at the host."""

    kind = ErrorKind.FILE_UNREADABLE


class ModelAccessError(ProviderAuthError):
    """The host wants a token, or a better one."""


class ModelOfflineError(ProviderUnavailableError):
    """The model would have to be downloaded, and HF_HUB_OFFLINE forbids that."""


class ModelHostError(ProviderUnavailableError):
    """The host cannot be used: its certificate, its redirects, its refusal."""


class ModelFormatError(ProviderUnavailableError):
    """What is there is no GGUF file: a web page, a pointer, another format."""


class ModelDamagedError(ProviderUnavailableError):
    """What arrived is not the file that the host announced."""


class ModelStorageError(ProviderUnavailableError):
    """The cache directory is full, read-only or of no use for locks."""


class ModelBusyError(ProviderTransientError):
    """Another process downloads this model and makes no progress."""
