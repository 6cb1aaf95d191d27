"""The choice of the file that is read: the command line, the environment, the usual places, none at all."""

from __future__ import annotations

import pytest

from config.errors import ConfigInvalidError, ConfigNotFoundError
from config.settings import SettingOrigin

BACKEND = "{memory: {citations: '%s'}}"


def test_without_any_file_everything_is_a_default(machine):
    settings = machine.load()
    assert settings.config_path is None
    assert settings.agent_id == "main"
    assert settings.workspace == machine.state / "workspace"
    assert settings.state_dir == machine.state
    assert settings.agent_dir == machine.state / "agents" / "main" / "agent"
    assert settings.sessions_dir == machine.state / "agents" / "main" / "sessions"
    assert settings.search.store.path == machine.state / "memory" / "main.memory-gateway.sqlite"
    assert settings.qmd.sessions.export_dir == machine.state / "memory-gateway/main/qmd/sessions"
    assert settings.warnings == ()
    assert set(settings.origins.values()) == {SettingOrigin(kind="default")}


def test_loading_creates_nothing(machine):
    machine.load()
    assert list(machine.home.iterdir()) == []


def test_the_usual_place_is_the_state_directory(machine):
    settings = machine.load(BACKEND % "off")
    assert settings.citations == "off"
    assert settings.config_path == machine.config
    assert settings.origins["configPath"] == SettingOrigin(kind="default")


def test_the_command_line_names_a_file(machine):
    machine.write(BACKEND % "off")
    machine.write(BACKEND % "on", machine.cwd / "my.json5")
    environment = {"OPENCLAW_CONFIG_PATH": "/ignored"}
    settings = machine.load(config_path="my.json5", environment=environment)
    assert settings.citations == "on"
    assert settings.config_path == machine.cwd / "my.json5"
    assert settings.origins["configPath"] == SettingOrigin(kind="command-line", detail="--config")


@pytest.mark.parametrize("variable", ["OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH"])
def test_a_variable_names_a_file(machine, variable):
    path = machine.write(BACKEND % "on", machine.home / "x" / "c.json")
    settings = machine.load(environment={variable: " ~/x/c.json "})
    assert (settings.citations, settings.config_path) == ("on", path)
    assert settings.origins["configPath"] == SettingOrigin(kind="environment", detail=variable)


@pytest.mark.parametrize(
    ("request_", "environment", "source"),
    [
        ({"config_path": "/no/such.json"}, {}, "--config"),
        ({}, {"OPENCLAW_CONFIG_PATH": "/no/such.json"}, "OPENCLAW_CONFIG_PATH"),
    ],
)
def test_a_named_file_that_is_missing_is_not_found(machine, request_, environment, source):
    machine.write(BACKEND % "off")
    with pytest.raises(ConfigNotFoundError) as caught:
        machine.load(environment=environment, **request_)
    assert str(caught.value) == (
        f"There is no configuration file /no/such.json, which {source} names. "
        f"Correct {source}, or leave it out so that the usual places are used."
    )


def test_a_blank_variable_names_nothing(machine):
    assert machine.load(environment={"OPENCLAW_CONFIG_PATH": "  "}).config_path is None


def test_a_named_directory_is_invalid(machine):
    with pytest.raises(ConfigInvalidError, match="Is a directory"):
        machine.load(config_path=machine.home)


@pytest.mark.parametrize("name", ["clawdbot.json", "moltbot.json", "moldbot.json"])
@pytest.mark.parametrize("directory", [".openclaw", ".clawdbot", ".moltbot", ".moldbot"])
def test_older_names_in_older_directories_are_found(machine, directory, name):
    path = machine.write(BACKEND % "on", machine.home / directory / name)
    settings = machine.load()
    assert settings.config_path == path
    assert settings.state_dir == machine.home / directory


def test_a_newer_name_and_a_newer_directory_come_first(machine):
    machine.write(BACKEND % "off", machine.home / ".clawdbot" / "openclaw.json")
    machine.write(BACKEND % "auto", machine.home / ".openclaw" / "clawdbot.json")
    path = machine.write(BACKEND % "on", machine.home / ".openclaw" / "openclaw.json")
    assert machine.load().config_path == path


def test_a_file_may_be_left_behind_in_an_older_directory(machine):
    machine.state.mkdir()
    path = machine.write(BACKEND % "on", machine.home / ".clawdbot" / "clawdbot.json")
    settings = machine.load()
    assert (settings.config_path, settings.state_dir) == (path, machine.state)


def test_a_link_to_a_file_that_is_away_does_not_mean_the_defaults(machine):
    away = machine.home / "disk/openclaw.json"
    machine.state.mkdir()
    machine.config.symlink_to(away)
    with pytest.raises(ConfigInvalidError, match=f"{machine.config}: is a link to {away}, which"):
        machine.load()
    machine.write(BACKEND % "off", away)
    assert machine.load().citations == "off"


def test_a_file_elsewhere_is_found_beside_a_link_that_leads_nowhere(machine):
    machine.state.mkdir()
    machine.config.symlink_to("away.json")
    older = machine.write(BACKEND % "off", machine.home / ".clawdbot/clawdbot.json")
    assert machine.load().config_path == older


class TestStateDirectory:
    @pytest.mark.parametrize("variable", ["OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR"])
    def test_a_variable_moves_everything(self, machine, variable):
        path = machine.write(BACKEND % "on", machine.home / "s" / "openclaw.json")
        settings = machine.load(environment={variable: "~/s"})
        assert settings.config_path == path
        assert settings.state_dir == machine.home / "s"
        assert (
            settings.search.store.path
            == machine.home / "s" / "memory" / "main.memory-gateway.sqlite"
        )
        assert settings.origins["stateDir"] == SettingOrigin(kind="environment", detail=variable)

    def test_the_default_workspace_stays_in_the_home(self, machine):
        settings = machine.load(environment={"OPENCLAW_STATE_DIR": "/s"})
        assert settings.workspace == machine.home / ".openclaw" / "workspace"

    def test_the_command_line_beats_the_variable(self, machine):
        environment = {"OPENCLAW_STATE_DIR": "/ignored"}
        settings = machine.load(state_dir="s", environment=environment)
        assert settings.state_dir == machine.cwd / "s"
        assert settings.origins["stateDir"] == SettingOrigin(
            kind="command-line", detail="--state-dir"
        )

    def test_a_state_directory_of_the_command_line_is_the_only_place_for_a_file(self, machine):
        machine.write(BACKEND % "on")
        assert machine.load(state_dir=machine.home / "other").config_path is None
        path = machine.write(BACKEND % "on", machine.home / "other" / "clawdbot.json")
        assert machine.load(state_dir=machine.home / "other").config_path == path

    def test_a_profile_has_its_own_workspace(self, machine):
        settings = machine.load(environment={"OPENCLAW_PROFILE": "dev"})
        assert settings.workspace == machine.home / ".openclaw" / "workspace-dev"

    def test_the_home_variable_moves_the_state(self, machine):
        settings = machine.load(environment={"OPENCLAW_HOME": "/srv/claw"})
        assert str(settings.state_dir) == "/srv/claw/.openclaw"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xfe", b"[]", b"[" * 10_000, b"{memory: }"])
def test_a_broken_file_is_invalid_wherever_it_was_found(machine, data):
    machine.write(data)
    with pytest.raises(ConfigInvalidError) as caught:
        machine.load()
    assert str(machine.config) in str(caught.value)
    assert caught.value.remedy


def test_an_empty_object_is_a_configuration_of_defaults(machine):
    settings = machine.load("{}")
    assert settings.config_path == machine.config
    assert settings.search == machine.load(config_path=machine.config).search
