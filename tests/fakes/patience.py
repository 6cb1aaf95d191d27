"""Longer patience, so that a slow disk does not decide what a search finds or whether there is a status."""

from __future__ import annotations

import pytest

from backends.builtin import backend
from backends.builtin.syncing import freshness

_LONG_S = 30.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "SURVEY_PATIENCE_S", (_LONG_S, _LONG_S))
    monkeypatch.setattr(freshness, "SLICE_PATIENCE_S", _LONG_S)
    monkeypatch.setattr(backend, "STATUS_PATIENCE_S", 2 * _LONG_S)
    monkeypatch.setattr(backend, "STATUS_CHOICE_PATIENCE_S", 2 * _LONG_S)
