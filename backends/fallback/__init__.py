"""QMD with the builtin index behind it: one memory that always answers, and says who did."""

from __future__ import annotations

from backends.fallback.backend import FallbackBackend, open_with_fallback

__all__ = ["FallbackBackend", "open_with_fallback"]
