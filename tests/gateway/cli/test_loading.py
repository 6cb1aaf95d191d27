"""The shared options reach the configuration."""

from __future__ import annotations

import pytest

from config.errors import ConfigNotFoundError
from gateway.cli.options import Options, load


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    for name in ("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_every_shared_option_reaches_the_settings(tmp_path, monkeypatch):
    (tmp_path / "my.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = load(Options(agent="ines", workspace="notes", state_dir="~/state", config="my.json"))
    assert settings.agent_id == "ines"
    assert settings.workspace == tmp_path / "notes"
    assert settings.state_dir == tmp_path / "state"
    assert settings.config_path == tmp_path / "my.json"


def test_a_working_directory_that_is_gone_is_a_clear_error(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigNotFoundError, match="working directory"):
        load(Options())
