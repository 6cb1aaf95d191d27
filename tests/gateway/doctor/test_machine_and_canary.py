"""The resources of the machine, a note of our own, and a memory without findings."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.each import each
from gateway.doctor.configuration import check_configuration, check_places, check_secrets
from gateway.doctor.index import canary_settings, check_canary, check_index
from gateway.doctor.surroundings import (
    check_disk,
    check_libraries,
    check_model,
    check_provider,
    check_service,
    check_watches,
    judge_room,
)
from gateway.systemd_units import drop_in_path, name_of

pytestmark = pytest.mark.anyio


def test_a_sound_memory_has_nothing_to_tell(settings, index, severities):
    checks = (check_configuration, check_provider, check_secrets, check_index, check_libraries)
    for check in (*checks, check_model, check_disk, check_watches):
        assert set(severities(check(settings))) <= {"ok"}, check
    assert set(severities(check_places(settings))) <= {"ok", "warning"}  # the folder is public


@each(
    ("free", "size", "severity"),
    [(10**7, 0, "error"), (10**8, 0, "warning"), (10**9, 2 * 10**9, "warning"), (10**9, 0, "ok")],
)
def test_room_is_judged_by_what_a_rebuild_needs(free, size, severity):
    assert judge_room(free, size, "/").severity == severity


@pytest.fixture
def few_descriptors():
    """Limits the process so that it can hardly open another file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 4, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_limit_of_the_system_that_hinders_watching_is_told(settings, worst, few_descriptors):
    one = worst(check_watches(settings))
    assert (one.severity, "too many files are open" in one.cause) == ("note", True)
    assert "max_user_watches" in one.fix


@each(("notes", "named"), [(None, "--agent work"), ("my notes", "--notes '{}/my notes'")])
def test_a_service_without_its_unit_file_is_installed_anew_for_the_same_memory(
    settings, root, monkeypatch, notes, named
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    folder = None if notes is None else root / notes
    settings = replace(settings, agent_id="work", notes_folder=folder)
    drop_in = drop_in_path(root / "config/systemd/user", name_of(settings))
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("", encoding="utf-8")
    (one,) = check_service(settings)
    assert one.fix == f"memory-gateway service install {named.format(root)}"


async def test_the_canary_sings_far_from_the_users_memory(settings, root, severities):
    before = sorted(root.rglob("*"))
    assert severities(await check_canary(replace(settings, memory_slot="none"))) == ["ok"]
    assert sorted(root.rglob("*")) == before
    apart = canary_settings(settings, Path("/elsewhere"))
    places = (apart.workspace, apart.state_dir, apart.sessions_dir, apart.search.store.path)
    assert all(one.is_relative_to("/elsewhere") for one in places)
    assert apart.search.extra_paths == ()


async def test_a_canary_without_room_is_an_error(settings, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    (one,) = await check_canary(settings)
    assert (one.severity, "/nowhere" in one.cause) == ("error", True)
