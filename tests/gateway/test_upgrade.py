"""Upgrading an installation: by the tool that installed it, from its source."""

import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from gateway.cli.commands.upgrading import NEWER, plan_upgrade

UV = ("uv", "tool")
PIP = (sys.executable, "-m", "pip", "install")
FOLDER = '{"url": "file:///src/a%20b", "dir_info": {}}'
EDITABLE = '{"url": "file:///src/a%20b", "dir_info": {"editable": true}}'
WHEEL = '{"url": "file:///downloads/m.whl", "archive_info": {}}'
GIT = (
    '{"url": "https://example.com/m.git", "vcs_info": {"vcs": "git", "requested_revision": "main"}}'
)
MARKS = {
    "uv": ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "memory-gateway", extras = ["local"] }]\n'),
    "pipx": ("pipx_metadata.json", "{}"),
}  # fmt: skip


@pytest.fixture
def installed(tmp_path, monkeypatch):
    def make(installer, origin):
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        if installer in MARKS:
            name, text = MARKS[installer]
            (tmp_path / name).write_text(text, encoding="utf-8")
        own = SimpleNamespace(read_text=lambda _name: origin)
        monkeypatch.setattr(metadata, "distribution", lambda _name: own)

    return make


@pytest.mark.parametrize(
    ("installer", "origin", "commands"),
    [
        ("uv", None, [(*UV, "upgrade", "memory-gateway")]),
        ("uv", GIT, [(*UV, "upgrade", "memory-gateway")]),
        ("uv", FOLDER, [(*UV, "upgrade", "--reinstall", "memory-gateway")]),
        ("pipx", None, [("pipx", "upgrade", "memory-gateway")]),
        ("pipx", FOLDER, [("pipx", "reinstall", "memory-gateway")]),
        ("pip", None, [(*PIP, "--upgrade", "memory-gateway")]),
        ("pip", "no json", [(*PIP, "--upgrade", "memory-gateway")]),
        ("pip", GIT, [(*PIP, "--upgrade", "memory-gateway @ git+https://example.com/m.git@main")]),
        ("pip", FOLDER, [(*PIP, "/src/a b")]),
        ("pip", EDITABLE, [(*PIP, "--editable", "/src/a b")]),
    ],
)
def test_what_installed_it_brings_it_up_to_date_from_where_it_came(
    installed, installer, origin, commands
):
    installed(installer, origin)
    plan = plan_upgrade()
    assert (plan.installer, list(plan.commands), plan.needs_file) == (installer, commands, False)


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        ("uv", (*UV, "install", "--force", "{}[local]")),
        ("pipx", ("pipx", "runpip", "memory-gateway", "install", "--upgrade", "{}")),
        ("pip", (*PIP, "--upgrade", "{}")),
    ],
)
def test_what_came_from_a_file_needs_the_newer_file(installed, installer, command):
    installed(installer, WHEEL)
    plan = plan_upgrade()
    assert (plan.source, plan.needs_file) == ("/downloads/m.whl", True)
    assert plan.commands == (tuple(part.format(NEWER) for part in command),)
    named = plan_upgrade("new.whl")
    assert (named.needs_file, named.commands) == (
        False,
        (tuple(part.format("new.whl") for part in command),),
    )


def test_a_clone_is_pulled_and_the_rest_is_done_by_its_next_start(installed, tmp_path, monkeypatch):
    installed("pip", f'{{"url": "file://{tmp_path}", "dir_info": {{"editable": true}}}}')
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert plan_upgrade().commands == (("git", "-C", str(tmp_path), "pull", "--ff-only"),)
