"""Home, state, configuration, workspace and runtime places."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from config import paths
from config.errors import ConfigNotFoundError, ErrorKind
from fakes.each import each

HOME = Path("/home/ada")
CWD = Path("/work")


@each(
    ("environment", "home"),
    [
        ({"HOME": "/home/ada"}, "/home/ada"),
        ({"HOME": "/home/ada", "OPENCLAW_HOME": "/srv/claw"}, "/srv/claw"),
        ({"HOME": "/home/ada", "OPENCLAW_HOME": "~/claw"}, "/home/ada/claw"),
        ({"HOME": "/home/ada", "OPENCLAW_HOME": "  "}, "/home/ada"),
        ({"USERPROFILE": "/users/ada"}, "/users/ada"),
        ({"HOME": "/a", "USERPROFILE": "/b"}, "/a"),
        ({"HOME": " ", "USERPROFILE": "/b"}, "/b"),
        ({"HOME": "rel", "USERPROFILE": "/b"}, "/b"),
        ({"HOME": "/a/../b/"}, "/b"),
        ({"OPENCLAW_HOME": "rel/x"}, "/work/rel/x"),
    ],
)
def test_the_home_comes_from_the_environment(environment, home):
    assert paths.home_dir(environment, CWD) == Path(home)


@each("environment", [{}, {"HOME": "rel"}])
def test_without_an_absolute_home_in_the_variables_the_system_knows_it(environment):
    assert paths.home_dir(environment, CWD) == Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_a_user_without_any_home_is_told_what_to_set(monkeypatch):
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(ConfigNotFoundError, match=r"no home directory.*Set HOME") as caught:
        paths.home_dir({}, CWD)
    assert caught.value.kind is ErrorKind.CONFIG_NOT_FOUND


@each(
    ("text", "path"),
    [
        ("/abs/x", "/abs/x"),
        ("~", "/home/ada"),
        ("~/x", "/home/ada/x"),
        ("~/../bob", "/home/bob"),
        ("~bob/x", "/base/~bob/x"),
        ("rel", "/base/rel"),
        ("./a/./b/../c", "/base/a/c"),
        ("../up", "/up"),
        ("../../../up", "/up"),
        ("  x  ", "/base/x"),
        ("", "/base"),
        ("with space/\u00fc", "/base/with space/\u00fc"),
    ],
)
def test_a_path_is_made_absolute_and_normal(text, path):
    assert paths.resolve_path(text, home=HOME, base=Path("/base")) == Path(path)


class TestStateDirectory:
    @pytest.mark.parametrize(
        ("environment", "state"),
        [
            ({"OPENCLAW_STATE_DIR": "/s"}, "/s"),
            ({"CLAWDBOT_STATE_DIR": "/old"}, "/old"),
            ({"OPENCLAW_STATE_DIR": "/s", "CLAWDBOT_STATE_DIR": "/old"}, "/s"),
            ({"OPENCLAW_STATE_DIR": " ", "CLAWDBOT_STATE_DIR": "~/o"}, "/home/ada/o"),
            ({"OPENCLAW_STATE_DIR": "rel"}, "/work/rel"),
        ],
    )
    def test_a_variable_names_it(self, environment, state):
        assert paths.state_dir(environment, home=HOME, cwd=CWD) == Path(state)

    @pytest.mark.parametrize(
        ("existing", "state"),
        [
            ([], ".openclaw"),
            ([".openclaw"], ".openclaw"),
            ([".clawdbot", ".openclaw"], ".openclaw"),
            ([".moltbot", ".clawdbot"], ".clawdbot"),
            ([".moldbot", ".moltbot"], ".moltbot"),
            ([".moldbot"], ".moldbot"),
        ],
    )
    def test_else_it_is_the_first_that_exists(self, tmp_path, existing, state):
        for name in existing:
            (tmp_path / name).mkdir()
        assert paths.state_dir({}, home=tmp_path, cwd=CWD) == tmp_path / state


class TestConfigCandidates:
    def test_a_chosen_state_directory_is_the_only_place(self):
        found = paths.config_candidates(Path("/s"), home=HOME, everywhere=False)
        assert [str(path) for path in found] == [
            "/s/openclaw.json",
            "/s/clawdbot.json",
            "/s/moltbot.json",
            "/s/moldbot.json",
        ]

    def test_otherwise_every_older_directory_is_looked_at_once(self):
        found = list(paths.config_candidates(HOME / ".openclaw", home=HOME, everywhere=True))
        assert found[0] == HOME / ".openclaw" / "openclaw.json"
        assert found[4] == HOME / ".clawdbot" / "openclaw.json"
        assert len(found) == len(set(found)) == 16


class TestDefaultWorkspace:
    def workspace(self, environment, agent_id="main", *, is_default=True):
        return paths.default_workspace(
            environment, home=HOME, state=Path("/s"), agent_id=agent_id, is_default=is_default
        )

    def test_the_default_agent_has_the_one_in_the_home(self):
        assert self.workspace({}) == HOME / ".openclaw" / "workspace"

    def test_a_profile_has_its_own(self):
        found = self.workspace({"OPENCLAW_PROFILE": " dev "})
        assert found == HOME / ".openclaw" / "workspace-dev"

    @pytest.mark.parametrize("profile", ["default", "Default", "", " "])
    def test_the_default_profile_is_none(self, profile):
        assert self.workspace({"OPENCLAW_PROFILE": profile}).name == "workspace"

    def test_other_agents_have_theirs_in_the_state_directory(self):
        found = self.workspace({"OPENCLAW_PROFILE": "dev"}, "ops", is_default=False)
        assert found == Path("/s/workspace-ops")


def test_derived_places_follow_the_documented_layout():
    state = Path("/s")
    assert paths.agent_dir(state, "ops") == Path("/s/agents/ops/agent")
    assert paths.sessions_dir(state, "ops") == Path("/s/agents/ops/sessions")
    assert paths.qmd_export_dir(state, "ops") == Path("/s/memory-gateway/ops/qmd/sessions")
    assert paths.index_path(state, "ops") == Path("/s/memory/ops.memory-gateway.sqlite")
    assert paths.former_index_path(state, "ops") == Path("/s/memory/ops.sqlite")


class TestRuntimeDirectory:
    NOBODY = 4_000_000_000

    def test_the_variable_names_it(self):
        found = paths.runtime_dir({"XDG_RUNTIME_DIR": "/run/x"}, state=Path("/s"), uid=self.NOBODY)
        assert found == Path("/run/x/memory-gateway")

    @pytest.mark.parametrize("value", ["", "relative/x"])
    def test_without_a_usable_one_it_is_private_to_the_state_directory(self, value):
        found = paths.runtime_dir({"XDG_RUNTIME_DIR": value}, state=Path("/s"), uid=self.NOBODY)
        assert found == Path("/s/run")


def test_what_may_not_be_looked_at_counts_as_missing(tmp_path):
    assert paths.exists(tmp_path)
    assert not paths.exists(tmp_path / "missing")
    assert not paths.exists(tmp_path / ("x" * 5000))


def test_what_cannot_be_looked_at_is_not_called_missing(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    assert (paths.is_present(tmp_path), paths.is_regular(tmp_path)) == (True, False)
    assert paths.is_present(tmp_path / "file") and paths.is_regular(tmp_path / "file")
    for name in ("nothing", "file/below", "loop", "null\0"):
        assert not paths.is_present(tmp_path / name) and not paths.is_regular(tmp_path / name)
    for look in (paths.is_present, paths.is_regular):
        with pytest.raises(OSError, match="too long"):
            look(tmp_path / ("m" * 300))
