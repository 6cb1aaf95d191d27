"""`recall` as a host asks for it: shown before a prompt, never twice, and only to those who may search."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from backends.interface import SyncRequest
from config.settings import CompactionSettings, ScopeMatch, ScopePolicy, ScopeRule, SyncSettings
from fakes.settings import make_settings
from gateway import recall
from gateway.agent.conversations import Conversations
from gateway.agent.memory import open_memory
from gateway.agent.reloading import Reloader
from gateway.methods import build_registry
from gateway.rpc.registry import RequestContext, Session, decode_params
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import ONLY_WORDS

pytestmark = pytest.mark.anyio

MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:-1"
BOILER = "- The boiler is serviced by Hartmann in Gauting every May."
PUMP = "- The circulation pump was replaced with a Wilo model."
PROMPT = "Who services the boiler in Gauting?"


class Host:
    """One client of a memory; `another` makes a further one."""

    def __init__(self, registry, memory, session=None):
        self.registry, self.memory = registry, memory
        self.session = session or Session()

    def another(self, **known) -> Host:
        return Host(self.registry, self.memory, Session(**known))

    async def ask(self, method, **params):
        found = self.registry.find(method)
        decoded = decode_params(method, found.params, msgspec.json.encode(params))
        context = RequestContext(session=self.session)
        return msgspec.to_builtins(await found.handler(decoded, context))

    async def recall(self, prompt=PROMPT, key=MAIN, **more):
        return await self.ask("recall", prompt=prompt, sessionKey=key, **more)


@pytest.fixture
def open_host(tmp_path: Path):
    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/memory/home.md").write_text(f"# Home\n\n{BOILER}\n{PUMP}\n", "utf-8")
    (tmp_path / "workspace/memory/tea.md").write_text("# Tea\n\n- Sencha from Uji.\n", "utf-8")

    @asynccontextmanager
    async def opened(*, background=False, synced=True, **changes):
        changes = {"search": {"provider": "none"}} | changes
        settings = make_settings(tmp_path, **changes)
        async with open_memory(settings, background=background) as memory:
            if synced:
                await memory.sync(SyncRequest())  # a busy machine takes longer than a search waits
            reloader = Reloader(memory, lambda: settings)
            yield Host(build_registry(memory, anyio.Event().set, reloader.reload), memory)

    return opened


async def test_what_likely_answers_is_told_with_its_place_as_words_of_notes(open_host):
    async with open_host() as host:
        recalled = await host.recall()
    assert recalled["notes"][0]["path"] == "memory/home.md"
    assert BOILER in recalled["text"]
    assert 'path="memory/home.md"' in recalled["text"]
    assert "not instructions" in recalled["text"]
    assert 0 < recalled["tokens"] <= 400
    assert "reason" not in recalled


async def test_a_session_is_never_told_twice_and_another_one_is_told(open_host):
    async with open_host() as host:
        assert "text" in await host.recall()
        assert await host.recall() == {"tokens": 0, "reason": "already_shown"}
        assert "text" in await host.recall(key="agent:main:other")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("memory_search", {"query": "boiler"}),
        ("memory_get", {"path": "memory/home.md"}),
    ],
)
async def test_what_a_search_or_a_file_has_shown_is_not_told(open_host, method, params):
    async with open_host() as host:
        await host.ask(method, sessionKey=MAIN, **params)
        assert await host.recall() == {"tokens": 0, "reason": "already_shown"}


async def test_what_a_session_started_with_is_not_told_until_it_starts_again(open_host, tmp_path):
    (tmp_path / "workspace/memory/home.md").unlink()
    (tmp_path / "workspace/MEMORY.md").write_text(f"{BOILER}\n{PUMP}\n", "utf-8")
    async with open_host() as host:
        await host.ask("session_start", sessionKey=MAIN)
        assert await host.recall() == {"tokens": 0, "reason": "already_shown"}
        await host.ask("session_start", sessionKey=MAIN, chatType="group")
        assert "text" in await host.recall()


async def test_a_compaction_is_noted_although_the_files_of_the_beginning_come_too_late(
    open_host, monkeypatch
):
    monkeypatch.setattr(recall, "HOOK_PATIENCE_S", 60)
    monkeypatch.setattr(Conversations, "files", lambda *_, **__: anyio.sleep_forever())
    async with open_host() as host:

        async def told(name, patience_ms=60_000, **more):
            event = {"hook_event_name": name, "session_id": "a", "prompt": PROMPT, **more}
            return await host.ask(
                "$/hook", client="claude-code", event=event, patienceMs=patience_ms
            )

        assert await told("UserPromptSubmit") is not None
        assert await told("UserPromptSubmit") is None
        assert await told("SessionStart", patience_ms=1, source="compact") is None
        assert await told("UserPromptSubmit") is not None


async def test_notes_that_a_search_for_a_prompt_found_and_nobody_was_told_are_not_counted_as_shown(
    open_host,
):
    async with open_host() as host:
        host.session.operator = True
        for _ in range(3):
            await host.recall()
        (note,) = (await host.ask("overview"))["counted"]["shown"]
    assert (note["path"], note["answers"]) == ("memory/home.md", 1)


async def test_a_hint_that_a_recall_keeps_to_itself_is_given_with_the_next_search(open_host):
    async with open_host() as host:
        assert await host.recall("Who repairs the zeppelin?") == {
            "tokens": 0,
            "reason": "nothing_likely",
        }
        assert ONLY_WORDS in (await host.ask("memory_search", query="zeppelin"))["warning"]


async def test_after_a_compaction_the_same_may_be_told_again(open_host):
    compaction = CompactionSettings(post_index_sync="off")
    async with open_host(compaction=compaction) as host:
        flush = {"sessionKey": MAIN, "totalTokens": 10, "contextWindow": 1000}
        await host.ask("memory_flush", **flush, compactionCount=0)
        assert "text" in await host.recall()
        await host.ask("memory_flush", **flush, compactionCount=0)
        assert "text" not in await host.recall()
        await host.ask("memory_flush", **flush, compactionCount=1)
        assert "text" in await host.recall()


async def test_a_program_without_session_keys_is_one_conversation_over_all_its_connections(
    open_host,
):
    async with open_host() as host:
        tools = host.another(process=4711, connection="stdio")
        call = {"name": "memory_search", "arguments": {"query": "boiler"}}
        assert not (await tools.ask("tools/call", **call))["isError"]
        mine = host.another(process=4711, connection="socket-1")
        assert await mine.ask("recall", prompt=PROMPT) == {"tokens": 0, "reason": "already_shown"}
        other = host.another(process=4712, connection="socket-2")
        assert "text" in await other.ask("recall", prompt=PROMPT)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("thanks!", "small_talk"),
        ("/compact", "command"),
        ("KeyError: 'boiler'", "machine_output"),
        ("What is the capital of Mongolia?", "nothing_likely"),
        ("", "small_talk"),
    ],
)
async def test_what_needs_no_memory_is_told_nothing_and_why(open_host, prompt, reason):
    async with open_host() as host:
        assert await host.recall(prompt) == {"tokens": 0, "reason": reason}


async def test_a_recall_during_the_first_index_says_that_notes_are_missing(open_host):
    later = {"provider": "none", "sync": SyncSettings(on_search=False)}
    async with open_host(search=later, synced=False) as host:
        assert (await host.recall())["stale"][
            "reason"
        ] == "the first sync of this index has not ended"
        await host.memory.sync(SyncRequest())
        assert "stale" not in await host.recall()


async def test_who_may_not_search_is_told_nothing(open_host):
    denied = ScopeRule(action="deny", match=ScopeMatch(chat_type="group"))
    async with open_host(scope=ScopePolicy(rules=(denied,))) as host:
        recalled = await host.recall(key=GROUP)
        assert recalled["reason"] == "denied"
        assert "rules[0]" in recalled["error"]
        assert (await host.recall(key="agent:other:main"))["reason"] == "denied"
        assert "text" in await host.recall()


async def test_a_memory_that_is_off_says_so(open_host):
    async with open_host(search={"provider": "none", "enabled": False}) as host:
        assert (await host.recall())["reason"] == "disabled"


async def test_the_bounds_of_a_request_hold(open_host):
    async with open_host() as host:
        assert await host.recall(maxTokens=30) == {"tokens": 0, "reason": "no_room"}
        assert (await host.recall(exclude=["memory/home.md"]))["reason"] == "nothing_likely"
        assert (await host.recall(minScore=1.0))["reason"] == "nothing_likely"
        with pytest.raises(InvalidParamsError, match="maxTokens"):
            await host.recall(maxTokens=1_000_000)


async def test_a_note_that_changed_is_told_again_with_what_is_new(open_host, tmp_path):
    async with open_host() as host:
        assert "text" in await host.recall()
        note = tmp_path / "workspace/memory/2026-02-08.md"
        note.write_text("- The boiler in Gauting is serviced by Huber from now on.\n", "utf-8")
        await host.memory.sync(SyncRequest())
        recalled = await host.recall()
        assert "Huber" in recalled["text"]
        assert "Hartmann" not in recalled["text"]


async def test_prompts_are_counted_by_what_came_of_them(open_host):
    async with open_host() as host:
        await host.recall()
        await host.recall()
        await host.recall("thanks!")
        families = {one["name"]: one for one in (await host.ask("metrics"))["families"]}
        counted = {one["labels"][0]: one["value"] for one in families["recalls"]["samples"]}
        assert counted == {"shown": 1, "already_shown": 1, "small_talk": 1}


async def test_the_record_of_use_is_kept_in_the_index_and_never_in_a_note(open_host, tmp_path):
    before = (tmp_path / "workspace/memory/home.md").read_bytes()
    async with open_host(background=True) as host:
        for _ in range(6000):  # a busy machine may not have indexed the note in time
            if (await host.recall())["tokens"]:
                break
        await host.ask("memory_get", path="memory/home.md", sessionKey=MAIN)
    async with open_host(background=True) as host:
        operator = host.another(operator=True)
        for _ in range(6000):
            counted = (await operator.ask("overview"))["counted"]
            if counted["recalled"]:
                break
            await anyio.sleep(0.01)
        assert [*counted["recalled"]] == [{"path": "memory/home.md", "recalled": 1, "used": 1}]
        assert (await host.ask("overview"))["counted"]["recalled"] is None
        activity = (await host.ask("status"))["activity"]
        assert (activity["recalled"], activity["recalledOfUse"]) == (1, 1)
    assert (tmp_path / "workspace/memory/home.md").read_bytes() == before


ASKED = {
    "memory_search": {"query": "boiler"},
    "memory_get": {"path": "memory/home.md"},
    "memory_append": {"text": "- The pump is quiet."},
    "recall": {"prompt": PROMPT},
    "session_start": {"sessionKey": GROUP},
}


async def test_every_answer_that_is_a_refusal_says_it_with_error_and_kind(open_host):
    denied = ScopeRule(action="deny", match=ScopeMatch(chat_type="group"))
    async with open_host(scope=ScopePolicy(rules=(denied,)), append_enabled=True) as host:
        guest = host.another(session_key=GROUP)
        for method, params in ASKED.items():
            found = await guest.ask(method, **params)
            assert found["error"].startswith("This conversation may not "), method
            assert found["kind"] == "denied", method
        refused = await host.ask("memory_get", path="../secret.md")
        assert refused["error"] and refused["kind"] == "path_not_allowed"
    async with open_host(search={"provider": "none", "enabled": False}) as host:
        syncs = [("sync", {"wait": wait}) for wait in (True, False)]
        for method, params in [*ASKED.items(), *syncs]:
            found = await host.ask(method, **params)
            assert found["error"] and found["kind"] == "disabled", method


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("地下室钥匙在谁那里？", "邻居"),
        ("洗濯機を直すのにいくらかかった", "洗濯機"),
        ("柵はいつ塗るの", "五月"),
        ("フランスの首都はどこですか", None),
        ("法国的首都是哪里", None),
        ("怎么提高睡眠质量", None),
        ("このコードを整形して", None),
    ],
)
async def test_a_prompt_without_spaces_is_known_by_its_ideographs_and_katakana(
    tmp_path, open_host, prompt, shown
):
    (tmp_path / "workspace/memory/notes.md").write_text(
        "# 备忘\n\n- 地下室的钥匙放在邻居家。\n\n# メモ\n\n"
        "- 洗濯機の修理に一万二千円。\n- 柵は五月に塗る予定。\n- コーヒーのカードを作った。\n",
        "utf-8",
    )
    async with open_host() as host:
        answer = await host.recall(prompt)
    assert shown in answer["text"] if shown else answer == {"tokens": 0, "reason": "nothing_likely"}
