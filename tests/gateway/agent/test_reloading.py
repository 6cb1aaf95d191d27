"""Reloading one memory: what is opened anew, what is not, and the state after a failure."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from config.errors import ConfigInvalidError, ConfigProblem
from config.settings import QuerySettings, ScopePolicy
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from gateway.agent.memory import open_memory
from gateway.agent.reloading import Reloader
from gateway.tools.search import SearchParams
from providers.embedding.service import REMOTE

pytestmark = pytest.mark.anyio


class Configured:
    """A memory whose next configuration a test chooses."""

    def __init__(self, memory):
        self.memory = memory
        self.next = memory.settings
        self.error = None
        self.reloader = Reloader(memory, self._read)

    def _read(self):
        if self.error is not None:
            raise self.error
        return self.next

    async def reload(self, **changes):
        self.next = replace(self.next, **changes)
        return await self.reloader.reload()


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/MEMORY.md").write_text("- The boiler.\n", encoding="utf-8")
    return make_settings(tmp_path, search={"provider": "none"})


@pytest.fixture
async def configured(settings):
    async with open_memory(settings, background=False) as memory:
        yield Configured(memory)


async def test_what_the_backend_does_not_care_for_leaves_it_open(configured):
    result = await configured.reload(scope=ScopePolicy(default="deny"), citations="off")
    assert set(result.changed) == {"scope", "citations"}
    assert not result.reopened
    assert (await configured.memory.search(SearchParams("boiler"))).outcome == "denied"


async def test_what_the_backend_answers_by_opens_it_anew(configured, settings):
    search = replace(settings.search, query=QuerySettings(min_score=1))
    result = await configured.reload(search=search)
    assert result.reopened
    assert (await configured.memory.search(SearchParams("the boilers"))).outcome == "empty"


async def test_nothing_changed_opens_nothing(configured):
    result = await configured.reload()
    assert (result.changed, result.reopened) == ((), False)


async def test_credentials_that_stand_beside_the_configuration_count(configured, settings):
    profiles = settings.agent_dir / "auth-profiles.json"
    profiles.parent.mkdir(parents=True)
    profiles.write_text("{}", encoding="utf-8")
    assert (await configured.reload()).reopened
    assert not (await configured.reload()).reopened


async def test_the_place_of_the_index_and_the_workspace_stay(configured, settings, tmp_path):
    store = replace(settings.search.store, path=tmp_path / "other.sqlite")
    result = await configured.reload(
        workspace=tmp_path / "elsewhere", search=replace(settings.search, store=store)
    )
    assert set(result.restart_needed) == {"workspace", "store.path"}
    assert not result.reopened
    assert configured.memory.settings.workspace == settings.workspace
    assert configured.memory.settings.search.store == settings.search.store


async def test_what_the_open_store_was_made_with_needs_a_restart_and_how_vectors_are_searched_none(
    configured, settings
):
    now = settings.search.store
    vector = replace(now.vector, max_resident_mb=1)
    store = replace(now, password_file=Path("/run/password"), schema="other", vector=vector)
    result = await configured.reload(search=replace(settings.search, store=store))
    assert set(result.restart_needed) == {"store.passwordFile", "store.schema"}
    assert result.reopened
    assert configured.memory.settings.search.store == replace(now, vector=vector)


async def test_a_configuration_that_cannot_be_read_changes_nothing_and_is_told(configured):
    problem = ConfigProblem(message="no brace", file="/etc/openclaw.json")
    configured.error = ConfigInvalidError([problem], remedy="Mend it.")
    before = configured.memory.settings
    with pytest.raises(ConfigInvalidError):
        await configured.reload()
    assert configured.memory.settings is before
    assert "no brace" in (await configured.memory.health()).reasons[0]
    status = await configured.memory.status()
    assert "no brace" in status.config_error
    assert status.config_path == "/etc/openclaw.json"
    configured.error = None
    await configured.reload()
    assert (await configured.memory.health()).status == "ok"


async def test_texts_are_embedded_by_one_backend_though_the_former_one_still_answers(
    settings, monkeypatch
):
    monkeypatch.setattr(
        "providers.embedding.service.REMOTE", replace(REMOTE, least_timeout_s=120.0)
    )
    query = QuerySettings(embedding_timeout_ms=120_000)
    with FakeVendor("openai", delay_s=120) as host:
        at_host = remote(host.base_url, host.key)
        asked = replace(settings.search, provider="openai", remote=at_host, query=query)
        async with (
            open_memory(replace(settings, search=asked)) as memory,
            anyio.create_task_group() as tasks,
        ):
            configured = Configured(memory)
            with anyio.fail_after(60):
                tasks.start_soon(memory.search, SearchParams("boiler"))
                while {one.texts for one in host.requests} != {("boiler",), ("- The boiler.",)}:
                    await anyio.sleep(0.01)
                fewer = replace(asked, query=replace(query, max_results=3))
                assert (await configured.reload(search=fewer)).reopened
                while not host.hung_up:
                    await anyio.sleep(0.01)
            assert host.hung_up == 1
            tasks.cancel_scope.cancel()


async def test_what_is_weak_is_opened_anew_in_the_hope_that_it_heals(settings, tmp_path):
    local = {"provider": "openai"}  # no key anywhere
    weak = replace(settings, search=replace(settings.search, **local))
    async with open_memory(weak, background=False) as memory:
        configured = Configured(memory)
        await memory.search(SearchParams("boiler"))
        assert await memory.weaknesses()
        assert (await configured.reload()).reopened
