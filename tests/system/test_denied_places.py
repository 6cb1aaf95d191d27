"""Places that belong to another user: every command names the place, its owner and the remedy, and `health` fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from fakes.users import IMPOSSIBLE, OTHER, OWNER, WHY_NOT, as_user, give
from gateway.client import spawn_gateway
from tests.system.conftest import PATIENCE_S, Home

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(IMPOSSIBLE, reason=WHY_NOT)]

FAULT = "fault of the program"
FAILS = {os.EX_UNAVAILABLE, os.EX_CONFIG, os.EX_NOINPUT}


class Ours(Home):
    """A home whose commands are run by a user who is not root."""

    named = True
    """True if commands name workspace, state and configuration; else they find them by the home alone."""

    def run(self, *arguments):
        shared = self.arguments if self.named else []
        command = [*as_user(OWNER), sys.executable, "-P", "-m", "gateway", arguments[0]]
        return subprocess.run(
            [*command, *shared, *arguments[1:]], env=self.environment, capture_output=True,
            encoding="utf-8", timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def ours():
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        home = Ours(Path(directory) / "home")
        give(home.root, OWNER)
        yield home


def close(place, mode=0o700):
    give(place, OTHER)
    place.chmod(mode)
    return place


def the_state_directory(home):
    return close(home.state)


def the_directory_of_the_index(home):
    home.run("index")
    return close(home.state / "memory")


def the_file_of_the_index(home):
    home.run("index")
    return close(home.state / "memory/main.memory-gateway.sqlite", 0o600)


def a_home_that_nobody_else_may_enter(home):
    home.named = False
    return close(home.root)


def a_state_directory_at_its_usual_place(home):
    home.named = False
    (home.root / ".openclaw/memory").mkdir(parents=True)
    return close(home.root / ".openclaw")


def the_configuration(home):
    return close(home.config, 0o600)


def the_directory_of_our_own_settings(home):
    home.named = False
    (home.root / ".config/memory-gateway").mkdir(parents=True)
    (home.root / ".config/memory-gateway/config.json5").write_text("{}")
    return close(home.root / ".config/memory-gateway")


CLOSED = [
    the_state_directory, the_directory_of_the_index, the_file_of_the_index,
    a_home_that_nobody_else_may_enter, a_state_directory_at_its_usual_place, the_configuration,
    the_directory_of_our_own_settings,
]  # fmt: skip


@pytest.mark.parametrize("closed", CLOSED, ids=lambda one: one.__name__)
def test_without_index_or_configuration_commands_say_whose_the_place_is_and_what_helps(
    ours, closed
):
    place = closed(ours)
    report = ("report", "--output", str(ours.root.parent / "report.html"))
    for words in (("search", "boiler"), ("status",), ("serve",), report, ("get", "MEMORY.md")):
        done = ours.run(*words)
        said = done.stdout + done.stderr
        assert done.returncode in FAILS, (words, said)
        assert FAULT not in said
        assert f"{place} belongs to user {OTHER} (mode " in said, (words, said)
        assert str(OWNER) in said and ("chown" in said or f"have {OTHER} let" in said)
    done = ours.run("health", "--json")
    health = json.loads(done.stdout)
    assert (done.returncode, health["status"]) == (2, "failing")
    assert f"{place} belongs to user {OTHER}" in health["reasons"][0]
    done = ours.run("doctor")
    assert done.returncode == 2
    assert f"{place} belongs to user {OTHER}" in done.stdout
    assert "could not be checked" not in done.stdout and FAULT not in done.stderr


def test_settings_that_may_not_be_read_are_not_written_and_whose_they_are_is_said(ours):
    place = the_directory_of_our_own_settings(ours)
    for words in (
        ("config", "set", "query.maxResults", "7"),
        ("setup", "--yes", str(ours.workspace)),
    ):
        done = ours.run(*words)
        assert done.returncode in FAILS, (words, done.stdout, done.stderr)
        assert f"{place} belongs to user {OTHER} (mode 0700)" in done.stderr
        assert f"have {OTHER} let" in done.stderr
    assert (place / "config.json5").read_text() == "{}"


def test_settings_in_a_home_that_may_only_be_read_end_as_files_that_cannot_be_written(ours):
    ours.named = False
    give(ours.root, OWNER)
    close(ours.root, 0o755)
    for words in (
        ("config", "set", "query.maxResults", "7", "--notes", str(ours.workspace)),
        ("setup", "--yes", str(ours.workspace)),
    ):
        done = ours.run(*words)
        assert done.returncode == os.EX_CANTCREAT, (words, done.stdout, done.stderr)
        assert f"cannot be written: {ours.root} belongs to user {OTHER} (mode 0755)" in done.stderr


@pytest.mark.parametrize("is_indexed", [False, True], ids=["never-indexed", "indexed"])
def test_a_workspace_that_may_not_be_read_is_no_empty_one(ours, is_indexed):
    if is_indexed:
        ours.run("index")
    place = close(ours.workspace)
    message = f"{place} belongs to user {OTHER} (mode 0700)"
    found = json.loads(ours.run("search", "boiler", "--json").stdout)
    assert found["outcome"] == ("ok" if is_indexed else "partial")
    assert bool(found["results"]) is is_indexed
    assert message in found["stale"]["reason"] and "sudo chown" in found["stale"]["reason"]
    shown = ours.run("search", "boiler")
    assert message in shown.stderr and "right folder" not in shown.stdout
    done = ours.run("health", "--json")
    health = json.loads(done.stdout)
    assert (done.returncode, health["status"]) == (2, "failing")
    assert message in health["reasons"][0] and "sudo chown" in health["reasons"][0]
    assert message in ours.run("status").stdout
    doctor = ours.run("doctor")
    assert (doctor.returncode, message in doctor.stdout) == (2, True)
    page = ours.root / "report.html"
    assert ours.run("report", "--output", str(page)).returncode == 0
    assert f"belongs to user {OTHER}" in page.read_text()
    assert message in ours.run("get", "MEMORY.md").stderr
    written = ours.run("remember", "the kettle is descaled")
    assert (written.returncode, message in written.stderr) == (os.EX_CANTCREAT, True)
    assert (ours.run("index").returncode, ours.run("index", "--force").returncode) == (75, 75)
    give(ours.workspace, OWNER)
    found = json.loads(ours.run("search", "boiler", "--json").stdout)
    assert (found["outcome"], found["results"][0]["path"]) == ("ok", "MEMORY.md")
    assert ours.run("health").returncode == 0


def test_a_folder_of_notes_none_of_which_may_be_read_is_not_called_the_wrong_one(ours):
    notes = ours.root / "notes"
    (notes / "house").mkdir(parents=True)
    (notes / "a.md").write_text("The boiler is serviced.\n")
    (notes / "house/b.md").write_text("The boiler is new.\n")
    give(notes, OWNER)
    close(notes / "house")
    close(notes / "a.md", 0o600)
    ours.named = False
    said = ours.run("search", "boiler", "--notes", str(notes)).stdout
    assert f"house: Permission denied: {notes}/house belongs to user {OTHER}" in said
    assert f"Permission denied: {notes}/a.md belongs to user {OTHER}" in said and ".." not in said
    assert "right folder" not in said
    close(notes)
    done = ours.run("search", "boiler", "--notes", str(notes))
    assert done.stdout == "No matches. Nothing is indexed in ~/notes.\n"
    assert f"the folder of notes {notes} may not be read" in done.stderr


def test_a_single_note_that_may_not_be_read_is_told_by_the_lists(ours):
    note = close(ours.workspace / "MEMORY.md", 0o600)
    for words in (("recent",), ("tags",), ("links", "MEMORY")):
        assert f"Notes may be missing: {note} cannot be read." in ours.run(*words).stderr


def test_an_index_that_may_only_be_read_is_told_and_so_are_files_beside_it_that_were_made_so(ours):
    assert ours.run("index").returncode == 0
    index = ours.state / "memory/main.memory-gateway.sqlite"
    index.chmod(0o400)
    done = ours.run("health")
    assert done.returncode == 1
    assert f"{index} belongs to this user (mode 0400)" in done.stdout
    assert f"chmod u+rwX {index}." in done.stdout
    index.chmod(0o600)  # SQLite gave its own files the mode of the index
    beside = [index.with_name(f"{index.name}{ending}") for ending in ("-wal", "-shm")]
    count = 0
    while closed := [one for one in beside if one.exists() and not one.stat().st_mode & 0o200]:
        done = ours.run("index", "--force")
        assert done.returncode == os.EX_UNAVAILABLE
        (named,) = (one for one in closed if f"chmod u+rwX {one}." in done.stderr)
        named.chmod(0o600)
        count += 1
    assert count
    assert ours.run("index", "--force").returncode == 0


def test_a_directory_of_notes_that_may_not_be_read_is_told_by_every_answer(ours):
    place = close(ours.workspace / "memory")
    found = json.loads(ours.run("search", "boiler", "--json").stdout)
    assert (found["outcome"], found["results"][0]["path"]) == ("ok", "MEMORY.md")
    assert json.loads(ours.run("search", "membrane", "--json").stdout)["outcome"] == "partial"
    assert f"{place} belongs to user {OTHER}" in found["stale"]["reason"]
    done = ours.run("health", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, "degraded")


async def test_a_gateway_whose_workspace_is_closed_and_opened_again_fails_and_recovers(ours):
    command = [*as_user(OWNER), sys.executable, "-P", "-m", "gateway", "serve"]
    async with spawn_gateway(
        ours.arguments, environment=ours.environment, patience_s=PATIENCE_S, command=command
    ) as client:
        await client.call("sync", timeout_s=PATIENCE_S)
        close(ours.workspace)
        found = await client.call("memory_search", {"query": "boiler"}, timeout_s=PATIENCE_S)
        assert found["results"]
        assert f"belongs to user {OTHER}" in found["stale"]["reason"]
        health = await client.call("health", timeout_s=PATIENCE_S)
        assert health["status"] == "failing"
        assert f"belongs to user {OTHER}" in health["reasons"][0]
        give(ours.workspace, OWNER)
        with anyio.fail_after(PATIENCE_S):
            while (await client.call("memory_search", {"query": "boiler"})).get("stale"):
                await anyio.sleep(0.05)
            while (await client.call("health"))["status"] != "ok":
                await anyio.sleep(0.05)
