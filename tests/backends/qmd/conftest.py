"""A real QMD, installed once, and a workspace with notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.qmd import clean_environment, install_qmd, write_notes


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
