"""What holds for every test of this floor."""

from __future__ import annotations

import pytest

from fakes.patience import be_patient
from gateway.agent import memory
from gateway.doctor import index


@pytest.fixture(autouse=True)
def patient_machine(monkeypatch, request) -> None:
    """A machine that stalls does not decide what is found and judged in this process, unless seconds are promised."""
    if request.node.get_closest_marker("promises_seconds"):
        return
    be_patient(monkeypatch)
    monkeypatch.setattr(memory, "HEALTH_PATIENCE_S", 30.0)
    monkeypatch.setattr(index, "TIMEOUT_S", 60.0)
