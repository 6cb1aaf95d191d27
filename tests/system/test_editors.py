"""Editors that save, agents that append and people who delete, at once: nothing is lost, nothing deleted stays.

Five minutes of it: `EDITORS_SECONDS=300 ./scripts/test tests/system/test_editors.py`.
"""

from __future__ import annotations

import sys

import pytest

from endurance.agent import Agent
from endurance.editors import check, seconds_wanted
from gateway.client import RemoteError

pytestmark = pytest.mark.anyio


@pytest.mark.promises_seconds
@pytest.mark.parametrize("seed", [1])
async def test_what_was_acknowledged_is_found_and_what_was_deleted_is_nowhere(tmp_path, seed):
    model = await check(Agent(tmp_path, None, seed), seed, seconds_wanted(12.0))
    sys.stdout.write(f"{dict(model.counts)}\n")
    assert model.failures == [], "\n".join(model.failures[:40])
    assert model.counts["appended"] >= 20
    assert model.counts["deleted"] >= 10
    assert model.counts["searched"] >= 20
    assert model.counts["overwritten by the editor"] <= model.counts["appended"] / 2


async def test_the_owner_of_the_index_forgets_for_the_person_at_the_machine_alone(tmp_path):
    agent = Agent(tmp_path, None, 1)
    note, secret = agent.workspace / "memory/secret.md", "opens-with-Xyl0phone-7731"
    note.write_text(f"# Cellar\n\n- the cellar door {secret}\n", encoding="utf-8")
    async with agent.gateway() as client:
        await client.call("sync", {}, timeout_s=60)
        note.unlink()
        params = {"path": "memory/secret.md", "remove": True}
        with pytest.raises(RemoteError, match="person at the machine"):
            await client.call("forget", params, timeout_s=60)
        await client.call("initialize", {"client": "test", "operator": True}, timeout_s=60)
        report = await client.call("forget", params, timeout_s=60)
        assert report["found"] == []
        left = [one for one in agent.state.rglob("*") if one.is_file()]
        assert [one.name for one in left if secret.encode() in one.read_bytes()] == []
