"""One agent's memory behind the methods: on and off, answers instead of failures, background work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from msgspec.structs import replace

from backends.interface import IndexUnavailableError, SyncRequest
from config.errors import ErrorKind
from config.host_keys import is_disabled
from config.settings import Settings, StoreSettings, SyncSettings
from fakes.sessions import of_session
from fakes.settings import make_settings
from gateway.agent.memory import open_memory
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.notes import GetParams
from gateway.tools.search import SearchParams

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings_of(tmp_path: Path) -> Callable[..., Settings]:
    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/memory/a.md").write_text("# Home\n\n- The boiler.\n", encoding="utf-8")
    (tmp_path / "workspace/secret.txt").write_text("secret", encoding="utf-8")

    def make(search: dict[str, Any] | None = None, **changes: Any) -> Settings:
        return make_settings(tmp_path, search={"provider": "none"} | (search or {}), **changes)

    return make


@pytest.fixture
def settings(settings_of) -> Settings:
    return settings_of()


async def test_a_memory_answers_with_its_notes(settings):
    async with open_memory(settings, background=False) as memory:
        result = await memory.search(SearchParams("boiler"))
        assert [hit.path for hit in result.hits] == ["memory/a.md"]
        assert result.outcome == "ok"
        text = await memory.get(GetParams("memory/a.md"))
        assert (text.status, text.text) == ("ok", "# Home\n\n- The boiler.\n")


async def test_yesterday_is_that_of_the_users_own_time_zone(settings_of):
    days = []
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):  # never on the same day
        async with open_memory(settings_of(user_timezone=zone), background=False) as memory:
            result = await memory.search(SearchParams("boiler yesterday", explain=True))
            (understood,) = result.hits[0].explain["time"]
            days.append(date.fromisoformat(understood["from"]))
    assert days[0] > days[1]


async def test_what_is_not_indexed_is_not_said_to_hold_nothing(settings):
    async with open_memory(settings, background=False) as memory:
        alone = await memory.search(SearchParams("boiler", sources=("sessions",)))
        assert (alone.hits, alone.outcome, alone.disabled) == ((), "disabled", False)
        assert "experimental.sessionMemory" in (alone.error or "")
        both = await memory.search(SearchParams("boiler", sources=("memory", "sessions")))
        assert ([hit.path for hit in both.hits], both.outcome) == (["memory/a.md"], "partial")
        assert "Past conversations were not searched" in (both.warning or "")


async def test_nothing_found_by_words_alone_says_what_would_find_more(settings):
    async with open_memory(settings, background=False) as memory:
        missed = await memory.search(SearchParams("xylophone"))
        assert (missed.outcome, missed.mode) == ("empty", "keyword")
        assert "models suggest" in (missed.warning or "")
        assert (await memory.search(SearchParams("boiler"))).warning is None


async def test_the_first_sync_runs_by_itself(settings_of):
    settings = settings_of({"sync": SyncSettings(on_search=False)})
    async with open_memory(settings) as memory:
        with anyio.fail_after(60):
            while not (await memory.status()).recent_syncs:
                await anyio.sleep(0.01)
        status = await memory.status()
        assert (status.files, status.recent_syncs[-1].reason) == (1, "boot")


async def test_a_stale_answer_makes_the_rest_be_indexed_behind_it(settings_of, tmp_path):
    settings = settings_of({"sync": SyncSettings(search_budget_ms=0)})
    async with open_memory(settings) as memory:
        with anyio.fail_after(60):
            while not (await memory.status()).files:
                await anyio.sleep(0.01)
            (tmp_path / "workspace/memory/b.md").write_text("pump\n", encoding="utf-8")
            assert (await memory.search(SearchParams("pump"))).stale is not None
            while not (await memory.search(SearchParams("pump"))).hits:
                await anyio.sleep(0.01)
            reasons = ""
            while "search" not in reasons.split(", "):  # it counts when all of it is done
                await anyio.sleep(0.01)
                reasons = ", ".join(one.reason for one in (await memory.status()).recent_syncs)


async def test_a_sync_can_be_waited_for_or_left_to_the_background(settings):
    async with open_memory(settings) as memory:
        report = await memory.sync(SyncRequest(reason="manual"))
        assert report is not None and report.complete
        memory.sync_later("watch")
        with anyio.fail_after(60):
            while not any("watch" in one.reason for one in (await memory.status()).recent_syncs):
                await anyio.sleep(0.01)


@pytest.mark.parametrize(
    ("search", "changes", "key"),
    [
        ({"enabled": False}, {}, "enabled"),
        ({}, {"memory_slot": "none"}, "plugins.slots.memory"),
    ],
)
class TestSwitchedOff:
    @pytest.fixture
    def settings(self, settings_of, search, changes) -> Settings:
        return settings_of(search, **changes)

    async def test_everything_answers_and_names_the_key(self, settings, key):
        assert is_disabled(settings)
        async with open_memory(settings) as memory:
            result = await memory.search(SearchParams("boiler"))
            assert (result.disabled, result.outcome, result.hits) == (True, "disabled", ())
            text = await memory.get(GetParams("memory/a.md"))
            assert (text.disabled, text.status, text.text) == (True, "error", "")
            status = await memory.status()
            assert not status.enabled
            health = await memory.health()
            assert health.status == "ok"
            for said in (result.error, text.error, status.disabled, *health.reasons):
                assert said is not None and key in said
            assert await memory.sync(SyncRequest()) is None
            memory.sync_later("watch")
            assert not await memory.transcript_grew("any")

    async def test_no_index_is_made(self, settings, key):
        async with open_memory(settings):
            pass
        assert not settings.search.store.path.exists()

    async def test_a_mistake_is_a_mistake_nevertheless(self, settings, key):
        async with open_memory(settings) as memory:
            with pytest.raises(InvalidParamsError):
                await memory.search(SearchParams(" "))
            with pytest.raises(InvalidParamsError):
                await memory.get(GetParams(""))


@pytest.mark.parametrize("path", ["", "  "])
async def test_blank_parameters_are_refused(settings, path):
    async with open_memory(settings, background=False) as memory:
        with pytest.raises(InvalidParamsError):
            await memory.get(GetParams(path))
        with pytest.raises(InvalidParamsError):
            await memory.search(SearchParams(path))


@pytest.mark.parametrize(
    "path", ["secret.txt", "../secret.md", "/etc/passwd", "memory/../secret.txt"]
)
async def test_a_path_that_is_not_memory_is_refused_in_a_result(settings, path):
    async with open_memory(settings, background=False) as memory:
        result = await memory.get(GetParams(path))
    assert (result.status, result.text, result.kind) == ("error", "", ErrorKind.PATH_NOT_ALLOWED)
    assert result.error
    assert not result.disabled


async def test_a_missing_note_is_not_found_and_not_refused(settings):
    async with open_memory(settings, background=False) as memory:
        assert (await memory.get(GetParams("memory/absent.md"))).status == "not_found"


async def test_the_session_of_the_request_goes_before_that_of_the_connection(settings):
    group, direct = "agent:main:x:group:1", "agent:main:main"
    async with open_memory(settings, background=False) as memory:

        async def cited(own: str | None, of_connection: str | None) -> bool:
            params = SearchParams("boiler", session_key=own)
            (hit,) = (await memory.search(params, of_session(of_connection))).hits
            return hit.citation is not None

        assert await cited(None, None)
        assert await cited(None, direct)
        assert not await cited(None, group)
        assert await cited(direct, group)
        assert not await cited(group, direct)


async def test_an_index_that_cannot_be_used_is_an_answer_with_its_cause_and_a_failing_health(
    settings, tmp_path
):
    store = StoreSettings(path=tmp_path / "state" / "main.sqlite")
    settings = replace(settings, search=replace(settings.search, store=store))
    async with open_memory(settings, background=False) as memory:
        assert (await memory.search(SearchParams("boiler"))).hits
        store.path.parent.rename(tmp_path / "away")
        store.path.parent.write_text("in the way", encoding="utf-8")
        result = await memory.search(SearchParams("boiler"))
        assert (result.hits, result.outcome, result.disabled) == ((), "disabled", True)
        assert result.error is not None
        assert "cannot be used" in result.error
        health = await memory.health()
        assert health.status == "failing"
        assert "cannot be used" in health.reasons[0]
        store.path.parent.unlink()
        assert (await memory.search(SearchParams("boiler"))).hits
        assert (await memory.health()).status == "ok"


async def test_an_index_that_cannot_be_made_is_a_typed_error_at_the_start(settings_of, tmp_path):
    (tmp_path / "main.sqlite").symlink_to("/proc/none/main.sqlite")
    with pytest.raises(IndexUnavailableError):
        async with open_memory(settings_of()):
            pytest.fail("it was opened")


async def test_a_failing_background_sync_shows_in_status_and_health(settings):
    async with open_memory(settings, background=False) as memory:
        await memory.sync(SyncRequest())
    with closing(apsw.Connection(str(settings.search.store.path))) as other:
        other.execute("BEGIN IMMEDIATE")
        (settings.workspace / "memory/b.md").write_text("pump\n", encoding="utf-8")
        async with open_memory(settings) as memory:
            with anyio.fail_after(60):
                while (await memory.status()).last_sync_error is None:
                    await anyio.sleep(0.02)
            health = await memory.health()
            assert health.status == "degraded"
            assert "locked" in health.reasons[0]
            assert [hit.path for hit in (await memory.search(SearchParams("boiler"))).hits]


async def test_a_second_memory_on_the_same_index_works_too(settings):
    async with open_memory(settings) as one, open_memory(settings) as other:
        for memory in (one, other):
            result = await memory.search(SearchParams("boiler"))
            assert [hit.path for hit in result.hits] == ["memory/a.md"]


async def reasons_of(memory, wanted):
    """The reasons of the syncs so far, once one of them is the wanted one."""
    with anyio.fail_after(60):
        while True:
            reports = (await memory.status()).recent_syncs
            reasons = {part for one in reports for part in one.reason.split(", ")}
            if wanted in reasons:
                return reasons
            await anyio.sleep(0.01)


@pytest.mark.parametrize("switch", [True, False])
async def test_the_first_search_of_a_session_asks_for_a_sync_if_that_is_wanted(settings_of, switch):
    settings = settings_of({"sync": SyncSettings(on_session_start=switch)})
    async with open_memory(settings) as memory:
        await reasons_of(memory, "boot")
        for _ in range(2):
            await memory.search(SearchParams("boiler"), of_session("agent:main:main"))
        await memory.search(SearchParams("boiler"))
        memory.sync_later("manual")
        assert ("session-start" in await reasons_of(memory, "manual")) is switch


async def test_a_forced_sync_left_to_the_background_is_forced(settings):
    async with open_memory(settings) as memory:
        await reasons_of(memory, "boot")
        memory.sync_later("manual", force=True)
        await reasons_of(memory, "manual")
        (forced,) = [one for one in (await memory.status()).recent_syncs if "manual" in one.reason]
        assert forced.bytes_read > 0


async def test_searches_that_do_not_look_at_the_disk_ask_for_no_sync(settings_of, tmp_path):
    settings = settings_of({"sync": SyncSettings(on_search=False, watch=False)})
    async with open_memory(settings) as memory:
        stale = (await memory.search(SearchParams("boiler"))).stale
        assert stale is None or "first sync" in stale.reason
        memory.sync_later("manual")
        assert "search" not in await reasons_of(memory, "manual")


@pytest.mark.parametrize(
    ("watch", "background", "mode"),
    [(True, True, "watching"), (False, True, "off"), (True, False, "off")],
)
async def test_status_says_how_changes_are_noticed(settings_of, watch, background, mode):
    settings = settings_of({"sync": SyncSettings(watch=watch)})
    async with open_memory(settings, background=background) as memory:
        with anyio.fail_after(60):
            while (state := (await memory.status()).watcher).mode == "starting":
                await anyio.sleep(0.01)
        assert state.mode == mode
        assert (state.directories, state.reason is None) == (2, True) if watch and background else (
            0, False
        )  # fmt: skip


@pytest.mark.parametrize("started_as", ["service", "mcp", "plugin", "command"])
async def test_what_switches_the_hosts_own_memory_off_is_named_by_status(settings_of, started_as):
    settings = settings_of(memory_slot="none", started_as=started_as)
    async with open_memory(settings, background=False) as memory:
        status = await memory.status()
        assert (status.enabled, status.disabled, status.started_as) == (True, None, started_as)
        (switch,) = status.switches
        assert (switch.key, switch.obeyed) == ('plugins.slots.memory = "none"', False)
        assert (await memory.search(SearchParams("boiler"))).outcome == "ok"
