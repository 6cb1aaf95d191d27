"""A real QMD, installed once, and a workspace with notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.qmd import server
from fakes.patience import be_patient
from fakes.qmd import clean_environment, install_qmd, write_notes


@pytest.fixture(autouse=True)
def patient_server(monkeypatch) -> None:
    """Waits long enough that a slow server is not replaced, and a slow disk not given up."""
    for name in ("CHECK_TIMEOUT_S", "START_TIMEOUT_S"):
        monkeypatch.setattr(server, name, 60.0)
    be_patient(monkeypatch)


@pytest.fixture
def hasty_server(monkeypatch) -> None:
    monkeypatch.setattr(server, "CHECK_TIMEOUT_S", 2.0)


@pytest.fixture(scope="session")
def qmd_command() -> str:
    return install_qmd()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "user-home"
    home.mkdir()
    return clean_environment(home)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    write_notes(tmp_path / "workspace")
    return tmp_path / "workspace"
