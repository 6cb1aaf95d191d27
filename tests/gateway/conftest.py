"""What holds for every test of this floor."""

from __future__ import annotations

import pytest

from backends.builtin.syncing import freshness
from gateway.agent import memory
from gateway.doctor import canary, index


@pytest.fixture(autouse=True)
def patient_machine(monkeypatch) -> None:
    """A machine that stalls does not decide what is found and judged in this process."""
    monkeypatch.setattr(freshness, "SURVEY_PATIENCE_S", (30.0, 30.0))
    monkeypatch.setattr(freshness, "_SLICE_PATIENCE_S", 30.0)
    monkeypatch.setattr(memory, "_HEALTH_PATIENCE_S", 30.0)
    monkeypatch.setattr(canary, "_TIMEOUT_S", 60.0)
    monkeypatch.setattr(index, "_TIMEOUT_S", 60.0)
