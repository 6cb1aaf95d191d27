"""Installing the plugin and removing it again, beside a stand-in for OpenClaw's command."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from config.errors import ConfigInvalidError
from endurance.processes import has_ended
from fakes.openclaw_command import make_openclaw
from gateway.cli.app import run_app
from gateway.cli.commands.connecting import _plan_lines
from gateway.openclaw import program
from gateway.openclaw.installation import (
    _refuse_unwritable,
    install,
    plan_installation,
    read_state,
    uninstall,
)
from gateway.openclaw.program import HostError, find_host, host_overlay

PATIENCE_S = 60
WRITTEN_BY_HAND = """{
  // the boiler's agent
  agents: {defaults: {workspace: '~/notes'}},
  memory: {search: {provider: "none"}},
}
"""


class Machine:
    def __init__(self, root: Path, **behaviour: Any) -> None:
        self.state = root / "state"
        self.state.mkdir()
        self.config = self.state / "openclaw.json"
        self.config.write_text(WRITTEN_BY_HAND)
        self.config.chmod(0o640)
        self.bin = root / "bin"
        self.messages: list[str] = []
        self.behave(**behaviour)

    def behave(self, **behaviour: Any) -> None:
        make_openclaw(self.bin, **behaviour)

    def host(self) -> Any:
        path = f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin"
        overlay = host_overlay(str(self.state), str(self.config))
        return find_host({"PATH": path}, None, overlay, self.messages.append)

    def install(self) -> dict[str, Any]:
        host = self.host()
        return install(host, self.state, plan_installation(host, self.state))

    def uninstall(self) -> Any:
        return uninstall(self.host(), self.state)

    def read(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.config.read_text())
        return data


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_rounds_leave_the_configuration_byte_for_byte_as_it_was(machine):
    for _round in range(3):
        machine.install()
        assert machine.read()["plugins"]["slots"]["memory"] == "memory-gateway"
        assert machine.uninstall().config == "restored"
        assert machine.config.read_text() == WRITTEN_BY_HAND
        assert machine.config.stat().st_mode & 0o777 == 0o640
    assert not list((machine.state / "memory-gateway").iterdir())


ALLOWING = WRITTEN_BY_HAND.replace("memory:", "plugins: {allow: ['notes']},\n  memory:")


def test_a_list_of_allowed_plugins_that_the_host_adds_us_to_is_no_change_of_the_user_s(machine):
    machine.config.write_text(ALLOWING)
    machine.install()
    assert machine.read()["plugins"]["allow"] == ["notes", "memory-gateway"]
    assert machine.uninstall().config == "restored"
    assert machine.config.read_text() == ALLOWING
    assert machine.config.stat().st_mode & 0o777 == 0o640


def test_after_a_change_of_the_user_s_neither_our_entry_nor_another_mode_stays(machine):
    machine.config.write_text(ALLOWING)
    machine.install()
    machine.config.write_text(json.dumps(machine.read() | {"ui": {"seamColor": "red"}}))
    machine.config.chmod(0o600)
    assert machine.uninstall().config == "edited"
    assert machine.read()["plugins"]["allow"] == ["notes"]
    assert machine.read()["ui"] == {"seamColor": "red"}
    assert machine.config.stat().st_mode & 0o777 == 0o640


INCLUDING = {
    "plugins in .* includes another file": ALLOWING.replace(
        "allow: ['notes']", "$include: './more.json'"
    ),
    "includes another file as a whole": "{$include: './more.json', logging: {level: 'info'}}",
}


@pytest.mark.parametrize("refusal", INCLUDING)
def test_a_file_that_includes_plugins_or_all_is_refused_before_anything_is_touched(
    machine, refusal
):
    (machine.state / "more.json").write_text("{}")
    machine.config.write_text(INCLUDING[refusal])
    before = {one: one.stat().st_mtime_ns for one in machine.state.iterdir()}
    with pytest.raises(HostError, match=refusal):
        machine.install()
    assert {one: one.stat().st_mtime_ns for one in machine.state.iterdir()} == before


@pytest.mark.parametrize("link", ["openclaw.plugin", "openclaw.before", "."])
def test_a_directory_of_ours_that_is_a_link_is_refused_and_nothing_is_written_behind_it(
    machine, tmp_path, link
):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "index.js").write_text("theirs")
    place = machine.state / "memory-gateway" / link
    if link != ".":
        place.parent.mkdir()
    place.symlink_to(theirs)
    with pytest.raises(HostError, match="is a link to"):
        machine.install()
    assert [one.name for one in theirs.iterdir()] == ["index.js"]
    assert (theirs / "index.js").read_text() == "theirs"
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_a_configuration_that_may_not_be_written_is_refused_before_anything_is_touched(
    unprivileged,
):
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        config = Path(place, "openclaw.json")
        config.write_text(WRITTEN_BY_HAND)
        with unprivileged(), pytest.raises(HostError, match="may not be written"):
            _refuse_unwritable(config)


def test_a_link_is_a_link_again_and_what_is_behind_it_was_never_written(machine, tmp_path):
    kept = tmp_path / "dotfiles.json5"
    machine.config.rename(kept)
    machine.config.symlink_to("../dotfiles.json5")
    machine.install()
    assert not machine.config.is_symlink()
    assert machine.uninstall().config == "restored"
    assert str(machine.config.readlink()) == "../dotfiles.json5"
    assert kept.read_text() == WRITTEN_BY_HAND
    machine.install()
    machine.config.write_text(json.dumps(machine.read() | {"ui": {"seamColor": "ff0000"}}))
    outcome = machine.uninstall()
    assert outcome.config == "edited"
    assert outcome.remarks[0].startswith("It was a link to ../dotfiles.json5, which is as it was")
    assert kept.read_text() == WRITTEN_BY_HAND


def test_a_configuration_of_20_megabytes_is_refused_before_anything_is_touched_and_after_it_grew(
    machine,
):
    huge = WRITTEN_BY_HAND.replace("the boiler's agent", "x" * 20_000_000)
    machine.config.write_text(huge)
    with pytest.raises(ConfigInvalidError, match=r"openclaw\.json: is larger than 4 MiB") as caught:
        machine.install()
    assert "make this one smaller" in caught.value.remedy
    assert machine.config.read_text() == huge
    assert not (machine.state / "memory-gateway").exists()
    machine.config.write_text(WRITTEN_BY_HAND)
    machine.install()
    installed = machine.config.read_text()
    machine.config.write_text(installed + " " * 20_000_000)
    with pytest.raises(ConfigInvalidError, match="is larger than 4 MiB"):
        machine.uninstall()
    machine.config.write_text(installed)
    assert machine.uninstall().config == "restored"
    assert machine.config.read_text() == WRITTEN_BY_HAND


@pytest.mark.parametrize("is_changed", [False, True])
def test_extended_attributes_come_back_and_other_names_of_the_file_are_told(machine, is_changed):
    try:
        os.setxattr(machine.config, "user.origin", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    other = machine.state / "dotfiles.json"
    os.link(machine.config, other)
    plan = plan_installation(machine.host(), machine.state)
    assert (plan.loses_attributes, plan.names) == (("user.origin",), 2)
    lines = "\n".join(_plan_lines(plan))
    assert "extended attributes (user.origin); they come back" in lines
    assert "2 names (hard links): the others keep what it says now" in lines
    machine.install()
    if is_changed:
        machine.config.write_text(json.dumps(machine.read() | {"ui": {"seamColor": "red"}}))
    outcome = machine.uninstall()
    assert outcome.config == ("edited" if is_changed else "restored")
    assert os.getxattr(machine.config, "user.origin") == b"mine"
    (remark,) = outcome.remarks
    assert remark.startswith(
        f"{machine.config} had 2 names (hard links) and is a file of its own now"
    )
    assert other.read_text() == WRITTEN_BY_HAND


def test_comments_that_were_added_since_are_kept_beside_and_told(machine):
    machine.install()
    commented = "// the neighbours' agent, too\n" + machine.config.read_text()
    machine.config.write_text(commented)
    outcome = machine.uninstall()
    assert (outcome.config, machine.config.read_text()) == ("restored", WRITTEN_BY_HAND)
    copy = machine.state / "openclaw.json.commented"
    assert outcome.remarks == (
        f"Comments that were written into it since the installation are kept in {copy} alone.",
    )
    assert copy.read_text() == commented


def test_the_reason_that_openclaw_gives_is_told_and_not_the_footer_below_it(machine):
    machine.behave(install_fails="EPERM: operation not permitted")
    with pytest.raises(HostError) as raised:
        machine.install()
    assert raised.value.message.endswith("Reason: EPERM: operation not permitted.")
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_from_a_configuration_that_became_invalid_nothing_is_taken_out(machine):
    machine.install()
    installed = json.dumps(machine.read() | {"bogus": 1})
    machine.config.write_text(installed)
    machine.behave(issue="Unrecognized key")
    with pytest.raises(HostError, match="is not valid: memory: Unrecognized key"):
        machine.uninstall()
    assert machine.config.read_text() == installed
    machine.behave()
    assert machine.uninstall().config == "edited"
    assert machine.read()["bogus"] == 1


def test_a_configuration_that_there_was_not_is_gone_afterwards(machine):
    machine.config.unlink()
    machine.install()
    assert machine.read()["plugins"]["entries"]["codex"]  # OpenClaw's own defaults
    machine.install()
    assert machine.uninstall().config == "restored"
    assert not machine.config.exists()


def test_a_configuration_that_there_was_not_stays_with_what_somebody_wrote_into_it(machine):
    machine.config.unlink()
    machine.install()
    machine.config.write_text(json.dumps(machine.read() | {"ui": {"seamColor": "red"}}))
    assert machine.uninstall().config == "edited"
    assert machine.read()["ui"] == {"seamColor": "red"}


def test_installing_again_keeps_the_file_as_it_was_before_the_first_time(machine):
    machine.install()
    machine.install()
    machine.uninstall()
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_what_somebody_changed_since_stays_and_only_ours_is_taken_out(machine):
    machine.install()
    changed = machine.read()
    changed["memory"]["citations"] = "off"
    machine.config.write_text(json.dumps(changed))
    assert machine.uninstall().config == "edited"
    left = machine.read()
    assert left["memory"] == {"search": {"provider": "none"}, "citations": "off"}
    assert "memory" not in left["plugins"]["slots"]


def test_the_plugin_that_had_the_slot_before_and_settings_of_ours_come_back(machine):
    settings = {"append": {"enabled": True}}
    entries = {"memory-gateway": {"config": settings}}
    before = {"plugins": {"slots": {"memory": "other"}, "entries": entries}}
    machine.config.write_text(json.dumps(before))
    machine.install()
    changed = machine.read() | {"logging": {"level": "debug"}}
    machine.config.write_text(json.dumps(changed))
    assert machine.uninstall().config == "edited"
    left = machine.read()["plugins"]
    assert left["slots"]["memory"] == "other"
    assert left["entries"]["memory-gateway"]["config"] == settings


def test_a_slot_that_was_given_to_somebody_else_since_is_a_change(machine):
    machine.install()
    changed = machine.read()
    changed["plugins"]["slots"]["memory"] = "other"
    machine.config.write_text(json.dumps(changed))
    assert machine.uninstall().config == "edited"


def test_an_entry_that_was_disabled_is_enabled(machine):
    machine.config.write_text('{"plugins": {"entries": {"memory-gateway": {"enabled": false}}}}')
    machine.install()
    assert machine.read()["plugins"]["entries"]["memory-gateway"]["enabled"] is True


def test_a_plugin_that_is_not_loaded_is_taken_out_again(machine):
    machine.behave(status="error")
    with pytest.raises(HostError, match="does not load the plugin into its memory slot: it is bro"):
        machine.install()
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_a_host_that_waits_for_its_locked_plugins_is_waited_for_with_a_word(machine, monkeypatch):
    monkeypatch.setattr(program, "_LONG_S", 0.1)
    machine.behave(locked_s=1)
    assert machine.install()["plugin"]["status"] == "loaded"
    assert "is not done after 0 s" in machine.messages[0]
    assert "locks them for 5 minutes" in machine.messages[0]


def test_of_two_installations_at_once_the_second_touches_nothing(machine):
    machine.behave(locked_s=3)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(machine.install)
        deadline = time.monotonic() + PATIENCE_S
        while not (machine.state / "worker.pid").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for other in (machine.install, machine.uninstall):
            with pytest.raises(HostError, match="is at work") as raised:
                other()
            assert "nothing was touched" in str(raised.value.remedy)
        assert first.result()["plugin"]["status"] == "loaded"
    assert machine.uninstall().config == "restored"
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_a_host_that_takes_too_long_is_ended_whole_and_all_is_as_before(machine, monkeypatch):
    monkeypatch.setattr(program, "_LONG_S", 0.1)
    monkeypatch.setattr(program, "_LOCKED_S", 0.0)
    machine.behave(locked_s=300)
    host = machine.host()
    plan = plan_installation(host, machine.state)
    monkeypatch.setattr(program, "_PATIENCE_S", 3.0)
    with pytest.raises(HostError, match="and was ended") as raised:
        install(host, machine.state, plan)
    assert "See what else of OpenClaw runs" in str(raised.value.remedy)
    assert len(machine.messages) == 1
    worker = int((machine.state / "worker.pid").read_text())
    deadline = time.monotonic() + PATIENCE_S
    while not has_ended(worker):  # the system takes its time to end a killed program
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_what_a_command_that_was_killed_has_taken_out_meanwhile_is_taken_out(machine):
    machine.install()
    machine.behave(done_by_another=True)
    assert machine.uninstall().config == "restored"
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_a_plugin_whose_record_a_killed_command_has_removed_is_taken_out(machine):
    machine.install()
    (machine.state / "install-record").unlink()
    assert machine.uninstall().config == "restored"
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_why_else_openclaw_does_not_take_it_out_is_told_and_nothing_is_lost(machine):
    machine.install()
    installed = machine.config.read_bytes()
    machine.behave(uninstall_fails=True)
    with pytest.raises(HostError, match=r"plugins uninstall .* failed: The database is full"):
        machine.uninstall()
    assert machine.config.read_bytes() == installed
    machine.behave()
    assert machine.uninstall().config == "restored"
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_nothing_is_changed_where_nothing_was_installed(machine):
    assert machine.uninstall().config == "untouched"
    assert machine.config.read_text() == WRITTEN_BY_HAND


def test_the_copy_knows_which_program_to_start(machine):
    machine.install()
    folder = machine.state / "memory-gateway/openclaw.plugin"
    command = json.loads((folder / "installed.json").read_text())["command"]
    assert Path(command[0]).exists()
    assert command[-1] == "gateway"
    assert (folder / "index.js").exists()
    assert (folder / "openclaw.plugin.json").exists()


def test_the_state_says_what_is_loaded_from_where(machine):
    assert not read_state(machine.host(), machine.state).loaded
    machine.install()
    state = read_state(machine.host(), machine.state)
    assert state.loaded
    assert state.installed
    assert state.plugin == str(machine.state / "memory-gateway/openclaw.plugin")
    assert state.problems == ()


def test_a_plugin_of_another_version_is_a_problem_with_the_remedy(machine):
    machine.install()
    package = machine.state / "memory-gateway/openclaw.plugin/package.json"
    package.write_text(json.dumps({"version": "0.0.1"}))
    (problem,) = read_state(machine.host(), machine.state).problems
    assert "install it again" in problem


def test_a_host_that_cannot_take_it_is_refused_in_one_sentence_with_the_remedy(tmp_path):
    refused = {
        "2026.9.5": ({"version": "2026.9.5"}, "OpenClaw 2026.9.5 is too old"),
        "node": ({"node": "20.20.2"}, r"Node.js 20.20.2 \(.*\) is too old: OpenClaw needs 24.16"),
        "invalid": ({"issue": "Unrecognized key"}, "is not valid: memory: Unrecognized key"),
    }
    for name, (behaviour, words) in refused.items():
        root = tmp_path / name
        root.mkdir()
        machine = Machine(root, **behaviour)
        with pytest.raises(HostError, match=words) as raised:
            machine.install()
        assert raised.value.remedy
        assert machine.config.read_text() == WRITTEN_BY_HAND
        assert not (machine.state / "memory-gateway").exists()


def test_no_openclaw_at_all_is_told_with_how_to_get_it(tmp_path):
    with pytest.raises(HostError, match="There is no OpenClaw here") as raised:
        find_host({"PATH": str(tmp_path)})
    assert "npm install -g openclaw" in str(raised.value.remedy)


def test_without_a_terminal_the_command_wants_to_be_told_yes(machine, monkeypatch, capsys):
    monkeypatch.setenv("PATH", f"{machine.bin}{os.pathsep}{os.environ['PATH']}")
    places = ["--state-dir", str(machine.state), "--config", str(machine.config)]
    assert run_app(["openclaw", "install", *places]) == os.EX_USAGE
    assert "--yes" in capsys.readouterr().err
    assert machine.config.read_text() == WRITTEN_BY_HAND
    assert run_app(["openclaw", "install", "--yes", *places]) == 0
    said = capsys.readouterr().out
    assert "openclaw uninstall" in said
    assert "now OpenClaw's own" in said
    assert run_app(["openclaw", "status", "--json", *places]) == 0
    assert json.loads(capsys.readouterr().out)["loaded"] is True
    assert run_app(["openclaw", "uninstall", "--yes", "--json", *places]) == 0
    assert json.loads(capsys.readouterr().out)["config"] == "restored"
