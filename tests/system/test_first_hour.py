"""The first hour of a new user: no notes, no key, no network, a mistake in typing."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.vendors import FakeVendor
from tests.system.conftest import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def nothing(home):
    """A home without a workspace."""
    shutil.rmtree(home.workspace)
    return home


def search_settings(**search):
    return {"agents": {"defaults": {"memorySearch": search}}}


@pytest.mark.parametrize(
    "command", [["status"], ["health"], ["search", "tea"], ["get", "MEMORY.md"]]
)
def test_looking_at_a_workspace_that_does_not_exist_leaves_nothing_behind(nothing, command):
    nothing.run(*command)
    assert list(nothing.state.iterdir()) == []
    assert not nothing.workspace.exists()


def test_a_workspace_that_does_not_exist_is_named(nothing):
    for command in (["status"], ["search", "tea"]):
        done = nothing.run(*command)
        assert (done.returncode, done.stdout) == (78, "")
        assert (
            f"The workspace {nothing.workspace}, which --workspace names, does not exist."
            in done.stderr
        )


def test_a_search_is_the_first_thing_that_one_may_do(home):
    found = json.loads(home.run("search", "boiler", "--json").stdout)
    assert found["results"][0]["path"] == "MEMORY.md"
    assert (home.state / "memory/main.memory-gateway.sqlite").exists()


def test_a_slip_in_the_configuration_names_line_key_and_remedy(home):
    home.config.write_text(
        '{\n  agents: { defaults: { memorySearch: { chunking: {\n  tokens: "many" } } } } }',
        encoding="utf-8",
    )
    done = home.run("search", "tea")
    assert done.returncode == 78
    assert "line 3" in done.stderr
    assert "tokens: found" in done.stderr
    assert "allowed is a whole number of tokens" in done.stderr
    assert "Correct these values, or remove them" in done.stderr


def test_a_wrong_key_is_told_with_its_place_and_remedy_and_words_still_answer(home):
    with FakeVendor("openai") as host:
        home.embed_with(host, key="wrong-key-0000000000")
        health = home.run("health", "--deep")
        assert health.returncode == 1
        assert "refused the credential (HTTP 401)" in health.stdout
        assert "Fix: The key came from remote.apiKey" in health.stdout
        assert "wrong-key" not in health.stdout + health.stderr
        assert json.loads(home.run("search", "boiler", "--json").stdout)["results"]


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("255.255.255.255", "Check the network"),  # no route leads there
        ("127.0.0.1", "Start it on this machine"),
    ],
)
def test_a_host_that_cannot_be_reached_is_told_with_a_remedy_and_words_still_answer(
    home, address, remedy
):
    access = {"baseUrl": f"http://{address}:9/v1", "apiKey": "a-key-0123456789"}
    home.configure(search_settings(provider="openai", remote=access))
    assert f"Fix: {remedy}" in home.run("health", "--deep").stdout
    assert json.loads(home.run("search", "boiler", "--json").stdout)["results"]


def test_packages_of_the_directory_where_one_stands_are_not_taken_for_ours(home):
    """Many projects have a package `config`; `scripts/run` and the units start the gateway like this."""
    stranger = home.root / "project/config/__init__.py"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("raise SystemExit('not ours')", encoding="utf-8")
    done = subprocess.run(
        [REPOSITORY / "scripts/run", "demo"],
        cwd=stranger.parents[1],
        env=home.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.count("; found)")) == (0, 6), done.stderr


@pytest.mark.parametrize("named", ["relative", ""])
def test_a_home_that_is_not_absolute_counts_as_none(home, named, tmp_path):
    command = [sys.executable, "-P", "-m", "gateway", "setup", str(home.workspace), "--dry-run"]
    environment = {"PATH": os.environ["PATH"], "HOME": named}
    done = subprocess.run(
        [*command, "--json"], env=environment, cwd=tmp_path, capture_output=True, encoding="utf-8",
        timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    own = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".config/memory-gateway/config.json5"
    assert json.loads(done.stdout)["file"] == str(own.resolve())
    assert not (tmp_path / "relative").exists()
