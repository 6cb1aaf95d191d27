"""The shared options reach the configuration."""

from __future__ import annotations

import pytest

from gateway.cli.options import Options, load


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    for name in ("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_every_shared_option_reaches_the_settings(tmp_path, monkeypatch):
    (tmp_path / "my.json").write_text("{}", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = load(Options(agent="ines", workspace="notes", state_dir="~/state", config="my.json"))
    assert settings.agent_id == "ines"
    assert settings.workspace == tmp_path / "notes"
    assert settings.state_dir == tmp_path / "state"
    assert settings.config_path == tmp_path / "my.json"
