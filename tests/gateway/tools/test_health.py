"""`health`: one word, and a reason for each that is not `ok`."""

import pytest
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.interface import BackendStatus, SkippedFile
from fakes.settings import make_settings
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


async def test_a_failing_sync_and_every_weakness_degrade_it(status):
    weaker = replace(status, weaknesses=("openai gives no vectors at present: no route",))
    health = judge_health(weaker, sync_error="The disk is full.")
    assert health.status == "degraded"
    assert len(health.reasons) == 2
    assert "The disk is full." in health.reasons[0]
    assert health.reasons[1:] == weaker.weaknesses


async def test_a_link_that_is_skipped_by_rule_degrades_nothing(status):
    skipped = (SkippedFile(path="memory/a.md", reason="symbolic link; links are never followed"),)
    assert judge_health(replace(status, skipped=skipped)).status == "ok"
