"""The calls of a chat runtime around its sessions, on a real workspace and index."""

from __future__ import annotations

import fcntl
import json
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from backends.interface import SyncRequest
from config.paths import flush_records_path
from config.settings import (
    CompactionSettings,
    ExtraPath,
    MemoryFlushSettings,
    ScopeMatch,
    ScopePolicy,
    ScopeRule,
    SyncSettings,
)
from fakes.sessions import OPERATOR, of_session
from fakes.settings import make_settings
from gateway.agent.conversations import (
    Conversations,
    FlushDoneParams,
    FlushParams,
    SessionStartParams,
)
from gateway.agent.memory import open_memory
from gateway.rpc.wire import InvalidParamsError
from gateway.session_start import today_and_yesterday
from gateway.tools.notes import MAX_ENTRY_BYTES, AppendParams, GetParams
from gateway.tools.search import SearchParams, agent_now

pytestmark = pytest.mark.anyio

MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:-1"
NO_GROUPS = ScopePolicy(
    rules=(ScopeRule(action="deny", match=ScopeMatch(chat_type="group")),),
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Memory\n\n- The boiler.\n", encoding="utf-8")
    return folder


@pytest.fixture
def talking(tmp_path, workspace):
    @asynccontextmanager
    async def opened(*, background=False, search=None, **changes):
        search = {"provider": "none"} | (search or {})
        settings = make_settings(tmp_path, search=search, **changes)
        async with open_memory(settings, background=background) as memory:
            yield Conversations(memory), memory

    return opened


async def test_a_session_starts_with_its_memory_and_the_recall_instructions(talking, workspace):
    today = agent_now("Asia/Tokyo").date()
    (workspace / f"memory/{today}.md").write_text("- tea\n", encoding="utf-8")
    async with talking(user_timezone="Asia/Tokyo", citations="off") as (conversations, _):
        result = await conversations.start(SessionStartParams(session_key=MAIN), of_session())
    assert [(file.role, file.status) for file in result.files] == [
        ("longterm", "ok"), ("user", "not_found"), ("today", "ok"), ("yesterday", "not_found"),
    ]  # fmt: skip
    assert (result.today, result.time_zone) == (today, "Asia/Tokyo")
    assert "memory_search" in result.instructions
    assert "Do not mention paths" in result.instructions


async def test_a_session_over_a_folder_of_notes_starts_with_the_daily_notes_that_are_kept_there(
    talking, workspace
):
    today, yesterday = today_and_yesterday(agent_now(None))
    journals = workspace / "journals"
    journals.mkdir()
    for day in (today, yesterday):
        (journals / f"{day:%Y_%m_%d}.md").write_text(f"- {day}\n", encoding="utf-8")
    notes = {"extra_paths": (ExtraPath(path=workspace, raw="."),)}
    async with talking(notes_folder=workspace, search=notes) as (conversations, _):
        result = await conversations.start(SessionStartParams(session_key=MAIN), of_session())
        listed = await conversations.files(of_session().session)
        full = FlushParams(session_key=MAIN, total_tokens=180_000)
        flush = await conversations.flush(full, of_session())
    assert f"into journals/{today:%Y_%m_%d}.md now" in flush.prompt
    assert [(file.path, file.text) for file in result.files if file.role in {"today", "yesterday"}] == [
        (f"journals/{today:%Y_%m_%d}.md", f"- {today}\n"), (f"journals/{yesterday:%Y_%m_%d}.md", f"- {yesterday}\n"),
    ]  # fmt: skip
    assert [file.path for file in listed] == [file.path for file in result.files]


async def test_a_folder_that_takes_too_long_to_list_costs_the_daily_notes_alone(talking, workspace):
    notes = {"extra_paths": (ExtraPath(path=workspace, raw="."),)}
    async with talking(notes_folder=workspace, search=notes) as (conversations, _):
        listed = await conversations.files(of_session().session, patience_s=0)
    assert listed[0].text == "# Memory\n\n- The boiler.\n"
    assert [one.status for one in listed[1:]] == ["not_found"] * 3


async def test_sessions_that_start_at_once_all_start_with_the_daily_notes_of_the_folder(
    talking, workspace
):
    day = today_and_yesterday(agent_now(None))[0] - timedelta(days=9)
    (workspace / f"{day:%Y_%m_%d}.md").write_text("- tea\n", encoding="utf-8")
    notes = {"extra_paths": (ExtraPath(path=workspace, raw="."),)}
    found = []
    async with talking(notes_folder=workspace, search=notes) as (conversations, _):

        async def start():
            result = await conversations.start(SessionStartParams(session_key=MAIN), of_session())
            found.extend(one.path for one in result.files if one.role == "today")

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(start)
    assert len(found) == 12
    assert not any(path.startswith("memory/") for path in found)


async def test_each_session_begins_one_sync(talking):
    search = {"sync": SyncSettings(on_search=False)}
    async with talking(background=True, search=search) as (conversations, memory):
        first = await conversations.start(SessionStartParams(session_key=MAIN), of_session())
        again = await conversations.start(
            SessionStartParams(session_key="Agent:Main:MAIN "), of_session()
        )
        assert (first.sync_started, again.sync_started) == (True, False)
        with anyio.fail_after(60):
            while True:
                reasons = {one.reason for one in (await memory.status()).recent_syncs}
                if any("session-start" in reason for reason in reasons):
                    break
                await anyio.sleep(0.01)


async def test_no_sync_is_begun_where_the_configuration_says_so(talking):
    search = {"sync": SyncSettings(on_session_start=False)}
    async with talking(search=search) as (conversations, _):
        result = await conversations.start(SessionStartParams(session_key=MAIN), of_session())
    assert not result.sync_started


@pytest.mark.parametrize(
    ("key", "reason"),
    [(GROUP, "rules[0] says deny"), ("agent:other:main", "the session belongs to agent other")],
)
async def test_a_session_that_may_not_use_memory_gets_nothing_from_any_tool(talking, key, reason):
    async with talking(scope=NO_GROUPS, append_enabled=True) as (conversations, memory):
        started = await conversations.start(SessionStartParams(session_key=key), of_session())
        assert (started.denied, started.files) == (True, ())
        assert reason in started.error
        found = await memory.search(SearchParams("boiler", session_key=key))
        assert (found.outcome, found.hits) == ("denied", ())
        assert reason in found.error
        read = await memory.get(GetParams("MEMORY.md", session_key=key))
        assert (read.status, read.text, read.denied) == ("error", "", True)
        added = await conversations.append(AppendParams(text="- x"), of_session(key))
        assert (added.denied, added.path) == (True, None)


async def test_the_operator_may_read_and_search_whatever_the_scope_says(talking):
    async with talking(scope=ScopePolicy(default="deny")) as (_, memory):
        found = await memory.search(SearchParams("boiler"), OPERATOR)
        assert found.outcome == "ok"
        assert (await memory.get(GetParams("MEMORY.md"), OPERATOR)).status == "ok"
        assert (await memory.get(GetParams("MEMORY.md"))).denied


async def test_a_flush_is_due_once_and_again_after_the_next_compaction(talking):
    params = FlushParams(session_key=MAIN, total_tokens=180_000, compaction_count=0)
    async with talking() as (conversations, memory):
        due = await conversations.flush(params, of_session())
        assert due.due
        assert f"memory/{agent_now(None).date()}.md" in due.prompt
        assert "NO_REPLY" in due.system_prompt
        failed = await conversations.flush_done(
            FlushDoneParams(session_key=MAIN, ok=False), of_session()
        )
        assert not failed.recorded
        assert (await conversations.flush(params, of_session())).due
        done = await conversations.flush_done(
            FlushDoneParams(session_key=MAIN, compaction_count=0), of_session()
        )
        assert (done.recorded, done.compaction_count) == (True, 0)
        again = await conversations.flush(params, of_session())
        assert (again.due, again.prompt) == (False, None)
        assert "had its flush" in again.reason
        store = flush_records_path(memory.settings.state_dir, "main")
        entries = json.loads(store.read_bytes())
        entries[MAIN]["compactionCount"] = 1
        store.write_text(json.dumps(entries), encoding="utf-8")
        later = FlushParams(session_key=MAIN, total_tokens=180_000)
        assert (await conversations.flush(later, of_session())).due


@pytest.mark.parametrize("key", ["agent:main:main:heartbeat", "agent:main:heartbeat"])
async def test_the_session_of_a_heartbeat_is_recognised_by_its_key(talking, key):
    async with talking() as (conversations, _):
        result = await conversations.flush(
            FlushParams(session_key=key, total_tokens=199_000), of_session()
        )
    assert not result.due


async def test_an_appended_entry_is_found_by_the_next_search(talking, workspace):
    async with talking(append_enabled=True, user_timezone="UTC") as (conversations, memory):
        await memory.search(SearchParams("anything"))
        added = await conversations.append(
            AppendParams(text="- The kingfisher came back."), of_session(MAIN)
        )
        assert (added.start_line, added.end_line, added.created) == (3, 3, True)
        found = await memory.search(SearchParams("kingfisher"))
        assert [hit.path for hit in found.hits] == [added.path]
        assert (workspace / added.path).read_text(encoding="utf-8").startswith("# 20")


async def test_an_entry_whose_writing_has_begun_is_answered_though_it_is_cancelled(
    talking, workspace
):
    note = workspace / "MEMORY.md"
    async with (
        talking(append_enabled=True) as (conversations, _),
        anyio.create_task_group() as tasks,
    ):

        async def append(text, scope, added):
            with scope:
                added.append(
                    await conversations.append(
                        AppendParams(text=text, target="longterm"), of_session(MAIN)
                    )
                )

        for number in range(40):
            scope, added = anyio.CancelScope(), []
            before = note.stat().st_size
            tasks.start_soon(append, f"- entry {number}", scope, added)
            with anyio.fail_after(60):
                while note.stat().st_size == before:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
                while not added:
                    assert not scope.cancelled_caught, (
                        f"entry {number} is written, but not answered"
                    )
                    await anyio.lowlevel.checkpoint()
            assert added[0].start_line == 4 + number


async def test_an_entry_that_is_cancelled_before_it_is_written_never_is(talking, workspace):
    note = workspace / "MEMORY.md"
    before = note.read_bytes()
    async with talking(append_enabled=True) as (conversations, _):
        with note.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with anyio.move_on_after(0.2) as scope:
                await conversations.append(
                    AppendParams(text="- late", target="longterm"), of_session(MAIN)
                )
        assert scope.cancelled_caught
        await conversations.append(AppendParams(text="- next", target="longterm"), of_session(MAIN))
    assert note.read_bytes() == before + b"- next\n"


@pytest.mark.parametrize(
    ("existing", "path"),
    [(("MEMORY.md",), "MEMORY.md"), (("memory.md",), "memory.md"), ((), "MEMORY.md"),
     (("MEMORY.md", "memory.md"), "MEMORY.md")],
)  # fmt: skip
async def test_the_long_term_memory_is_the_file_that_exists(talking, workspace, existing, path):
    (workspace / "MEMORY.md").unlink()
    for name in existing:
        (workspace / name).write_text("- old\n", encoding="utf-8")
    async with talking(append_enabled=True) as (conversations, _):
        params = AppendParams(text="- new", target="longterm")
        assert (await conversations.append(params, of_session(MAIN))).path == path
    text = (workspace / path).read_text(encoding="utf-8")
    assert text == ("- old\n- new\n" if existing else "- new\n")


async def test_what_others_say_never_enters_the_long_term_memory(talking):
    async with talking(append_enabled=True) as (conversations, _):
        params = AppendParams(text="- trust me", target="longterm")
        assert (await conversations.append(params, of_session(GROUP))).denied
        assert (
            await conversations.append(AppendParams(text="- hi"), of_session(GROUP))
        ).path is not None


async def test_who_names_no_session_may_not_do_more_than_one_that_does(talking, workspace):
    deny = ScopePolicy(default="deny", rules=())
    async with talking(append_enabled=True, scope=deny) as (conversations, _):
        assert (await conversations.append(AppendParams(text="- x"), of_session(None))).denied
    async with talking(append_enabled=True) as (conversations, _):
        params = AppendParams(text="- x", target="longterm")
        assert "main session" in (await conversations.append(params, of_session(None))).error
        assert (
            await conversations.append(AppendParams(text="- x"), of_session(None))
        ).path is not None
    assert "- x" not in (workspace / "MEMORY.md").read_text(encoding="utf-8")


async def test_a_flush_is_not_answered_for_a_session_of_another_agent(talking):
    async with talking() as (conversations, _):
        for ask, params in (
            (conversations.flush, FlushParams(session_key="agent:other:main")),
            (conversations.flush_done, FlushDoneParams(session_key="agent:other:main")),
        ):
            with pytest.raises(InvalidParamsError, match="belongs to agent other"):
                await ask(params, of_session())


async def test_appending_is_off_unless_it_is_switched_on(talking, workspace):
    async with talking() as (conversations, _):
        result = await conversations.append(AppendParams(text="- x"), of_session(MAIN))
    assert result.disabled
    assert "append.enabled" in result.error
    assert list((workspace / "memory").iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "  \n", "a\0b", "\x1b[31m", "\ud800", "x" * (MAX_ENTRY_BYTES + 1)]
)
async def test_what_cannot_be_an_entry_is_refused(talking, text):
    async with talking(append_enabled=True) as (conversations, _):
        with pytest.raises(InvalidParamsError):
            await conversations.append(AppendParams(text=text), of_session(MAIN))


async def test_while_memory_is_off_sessions_load_and_write_nothing(talking, workspace):
    async with talking(memory_slot="none", append_enabled=True) as (conversations, _):
        started = await conversations.start(SessionStartParams(session_key=MAIN), of_session())
        added = await conversations.append(AppendParams(text="- x"), of_session(MAIN))
    assert started.disabled
    assert added.disabled
    assert "plugins.slots.memory" in started.error


async def test_a_flush_names_the_model_that_the_configuration_wants_for_it(talking):
    flush = MemoryFlushSettings(model="ollama/small")
    async with talking(compaction=CompactionSettings(memory_flush=flush)) as (conversations, _):
        params = FlushParams(session_key=MAIN, total_tokens=180_000)
        assert (await conversations.flush(params, of_session())).model == "ollama/small"
        waiting = FlushParams(session_key=MAIN, total_tokens=1)
        assert (await conversations.flush(waiting, of_session())).model is None


@pytest.mark.parametrize("mode", ["off", "async", "await"])
async def test_a_compaction_makes_the_index_look_again_as_configured(talking, mode):
    compaction = CompactionSettings(post_index_sync=mode)
    async with talking(compaction=compaction, background=True) as (conversations, memory):

        async def reasons():
            return [one.reason for one in (await memory.status()).recent_syncs]

        with anyio.fail_after(60):
            while not await reasons():
                await anyio.sleep(0.01)
            for count in (3, 3, 4):
                assert "post-compaction" not in await reasons()
                params = FlushParams(session_key=MAIN, total_tokens=1, compaction_count=count)
                await conversations.flush(params, of_session())
            if mode == "await":
                assert "post-compaction" in await reasons()
            elif mode == "off":
                await memory.sync(SyncRequest(reason="last"))
                assert "post-compaction" not in await reasons()
            else:
                while not any("post-compaction" in one for one in await reasons()):
                    await anyio.sleep(0.01)


async def test_what_is_remembered_across_conversations_is_not_searched_from_a_group(
    talking, tmp_path
):
    search = {
        "sources": ("memory", "sessions"),
        "session_memory": True,
        "sessions_in_private_only": True,
    }
    async with talking(search=search) as (_, memory):
        folder = memory.settings.sessions_dir
        folder.mkdir(parents=True, exist_ok=True)
        content = [{"type": "text", "text": "The heron nests at the mill pond."}]
        line = {"type": "message", "message": {"role": "user", "content": content}}
        (folder / "a.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
        await memory.sync(SyncRequest(reason="manual"))

        async def found(key, **params):
            result = await memory.search(SearchParams("heron boiler", **params), of_session(key))
            return {hit.source for hit in result.hits}, result.outcome

        assert await found(MAIN) == ({"memory", "sessions"}, "ok")
        assert await found(GROUP) == ({"memory"}, "ok")
        assert await found(None) == ({"memory"}, "ok")
        assert await found(GROUP, sources=("sessions",)) == (set(), "denied")
        assert await found(GROUP, sources=("memory", "sessions")) == ({"memory"}, "partial")
        shown = await memory.search(SearchParams("heron"), OPERATOR)
        assert {hit.source for hit in shown.hits} == {"sessions"}

        for path in ("sessions/one-of-the-hosts", "qmd/sessions/one.md"):
            read = await memory.get(GetParams(path), of_session(GROUP))
            assert "main session" in (read.error or "")
            own = await memory.get(GetParams(path), of_session(MAIN))
            assert "main session" not in (own.error or "")
