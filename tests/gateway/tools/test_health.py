"""`health`: one word, and a reason for each that is not `ok`."""

import pytest
from fakes.settings import make_settings

from backends.builtin.backend import open_builtin
from backends.interface import BackendStatus, SkippedFile
from gateway.tools.health import Health, judge_health

pytestmark = pytest.mark.anyio


@pytest.fixture
async def status(tmp_path) -> BackendStatus:
    async with open_builtin(make_settings(tmp_path, search={"provider": "none"})) as backend:
        return await backend.status()


async def test_a_working_memory_is_ok(status):
    assert judge_health(status) == Health("ok", ())


async def test_a_memory_that_is_off_on_purpose_is_ok_and_says_so():
    assert judge_health(disabled="Switched off.") == Health("ok", ("Switched off.",))


async def test_a_memory_that_cannot_answer_is_failing(status):
    assert judge_health(status, failure="No disk.") == Health("failing", ("No disk.",))


async def test_a_failing_sync_and_unreadable_files_degrade_it(status):
    from msgspec.structs import replace

    weaker = replace(
        status, skipped=(SkippedFile(path="memory/a.md", reason="Permission denied"),)
    )
    health = judge_health(weaker, sync_error="The disk is full.")
    assert health.status == "degraded"
    assert len(health.reasons) == 2
    assert "The disk is full." in health.reasons[0]


async def test_a_link_that_is_skipped_by_rule_degrades_nothing(status):
    from msgspec.structs import replace

    skipped = (SkippedFile(path="memory/a.md", reason="symbolic link; links are never followed"),)
    assert judge_health(replace(status, skipped=skipped)).status == "ok"
