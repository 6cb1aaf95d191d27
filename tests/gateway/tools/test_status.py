"""`status` on the wire."""

import os

import msgspec
import pytest

from backends.builtin.backend import open_builtin
from backends.interface import Details, SyncRequest
from config.settings import ConfigWarning
from fakes.details import WIRE
from fakes.settings import make_settings
from gateway.tools.status import write_status

pytestmark = pytest.mark.anyio


def snake_case_members(value: object) -> set[str]:
    """Names of members, at any depth, that are not camelCase."""
    if isinstance(value, list):
        return set().union(*map(snake_case_members, value)) if value else set()
    if isinstance(value, dict):
        return {name for name in value if "_" in name}.union(
            *map(snake_case_members, value.values())
        )
    return set()


async def test_every_member_at_every_depth_is_camel_case(tmp_path, on_the_wire):
    settings = make_settings(tmp_path, search={"provider": "none"})
    (settings.workspace / "memory").mkdir(parents=True)
    (settings.workspace / "memory/a.md").write_text("boiler\n", encoding="utf-8")
    (settings.workspace / "memory/link.md").symlink_to("a.md")
    async with open_builtin(settings) as backend:
        await backend.sync(SyncRequest())
        wire = on_the_wire(write_status(settings, await backend.status()))
    assert snake_case_members(wire) == set()
    assert (wire["agentId"], wire["enabled"], wire["pid"]) == ("main", True, os.getpid())
    assert (wire["files"], wire["chunks"]) == (1, 1)
    assert wire["sources"][0]["onDisk"] == 1
    assert wire["recentSyncs"][0]["chunksWritten"] == 1
    assert wire["skipped"][0]["path"] == "memory/link.md"
    assert wire["databasePath"] == str(tmp_path / "main.sqlite")


async def test_every_part_of_a_backend_keeps_its_names_on_the_wire(on_the_wire):
    assert on_the_wire(msgspec.convert(WIRE, Details)) == WIRE
    assert on_the_wire(Details()) == {}


async def test_the_error_of_the_last_background_sync_is_told(tmp_path, on_the_wire):
    settings = make_settings(tmp_path, search={"provider": "none"})
    async with open_builtin(settings) as backend:
        status = await backend.status()
    wire = on_the_wire(write_status(settings, status, sync_error="The disk is full."))
    assert wire["lastSyncError"] == "The disk is full."


async def test_a_disabled_memory_has_a_status_too(tmp_path, on_the_wire):
    settings = make_settings(
        tmp_path, warnings=(ConfigWarning(path="memory.serach", message="unknown key"),)
    )
    wire = on_the_wire(write_status(settings, None, disabled="Switched off."))
    assert (wire["enabled"], wire["disabled"]) == (False, "Switched off.")
    assert wire["warnings"] == ["memory.serach: unknown key"]
    assert wire["workspace"] == str(tmp_path / "workspace")


async def test_of_many_skipped_files_some_are_named(tmp_path, on_the_wire):
    settings = make_settings(tmp_path, search={"provider": "none"})
    (settings.workspace / "memory").mkdir(parents=True)
    for number in range(60):
        (settings.workspace / f"memory/{number}.md").symlink_to("absent")
    async with open_builtin(settings) as backend:
        wire = on_the_wire(write_status(settings, await backend.status()))
    assert len(wire["skipped"]) <= 50
    assert wire["sources"][0]["skipped"] == 60
