"""Fixtures for every test of this floor."""

from __future__ import annotations

import pytest

from fakes.patience import be_patient
from gateway.agent import memory
from gateway.doctor import index


@pytest.fixture(autouse=True)
def patient_machine(monkeypatch, request) -> None:
    """Waits so long that a machine that stalls does not decide the results, unless the test promises seconds."""
    if request.node.get_closest_marker("promises_seconds"):
        return
    be_patient(monkeypatch)
    monkeypatch.setattr(memory, "HEALTH_PATIENCE_S", 30.0)
    monkeypatch.setattr(index, "TIMEOUT_S", 60.0)
