"""Notes as resources: no more than `session_start` loads and `memory_get` reads; and the prompt."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from config.settings import ScopePolicy
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import agent_now

pytestmark = pytest.mark.anyio


@pytest.fixture
def logs(workspace):
    """The paths of today's, yesterday's and an older log, and long-term memory, all with words."""
    today = agent_now(None).date()
    names = [f"memory/{today - timedelta(days=days)}.md" for days in (0, 1, 2)]
    for name in (*names, "MEMORY.md"):
        (workspace / "workspace" / name).write_text(f"# {name}\n\nWords.\n", encoding="utf-8")
    return names


async def listed(desk):
    return [one["name"] for one in (await desk.ask("resources/list"))["resources"]]


async def test_what_a_session_loads_is_listed_and_can_be_read(desk, logs):
    found = (await desk.ask("resources/list"))["resources"]
    assert [one["name"] for one in found] == ["MEMORY.md", *logs[:2]]
    assert [one["title"] for one in found] == ["Long-term memory", "Today's log", "Yesterday's log"]
    for one in found:
        (content,) = (await desk.ask("resources/read", uri=one["uri"]))["contents"]
        assert content == {
            "uri": one["uri"],
            "mimeType": "text/markdown",
            "text": f"# {one['name']}\n\nWords.\n",
        }


async def test_what_is_not_there_is_not_listed(desk):
    assert await listed(desk) == []


async def test_long_term_memory_is_listed_only_for_the_main_session(desk, logs):
    desk.session.session_key = "agent:main:telegram:group:1"
    assert await listed(desk) == logs[:2]
    desk.session.session_key = "agent:main:main"
    assert await listed(desk) == ["MEMORY.md", *logs[:2]]


@pytest.mark.parametrize("key", [None, "agent:main:main", "agent:other:main"])
async def test_a_conversation_that_may_not_read_is_shown_nothing(desk, logs, key):
    if key != "agent:other:main":
        denied = ScopePolicy(default="deny", rules=())
        desk.memory.settings = replace(desk.memory.settings, scope=denied)
    desk.session.session_key = key
    assert await listed(desk) == []
    with pytest.raises(InvalidParamsError, match="may not read"):
        await desk.ask("resources/read", uri=f"memory:///{logs[0]}")


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("memory:///../secret.md", "not allowed"),
        ("memory:///%2e%2e/secret.md", "not allowed"),
        ("memory:///memory/absent.md", "There is no memory/absent.md"),
        ("memory:///", "blank"),
        ("file:///etc/passwd", "no resource"),
    ],
)
async def test_what_memory_get_does_not_read_is_no_resource(desk, uri, why):
    with pytest.raises(InvalidParamsError, match=why):
        await desk.ask("resources/read", uri=uri)


async def test_names_in_every_script_survive_being_an_address(desk, workspace):
    (workspace / "workspace/memory/ä b%.md").write_text("Words.", encoding="utf-8")
    uri = "memory:///memory/%C3%A4%20b%25.md"
    (content,) = (await desk.ask("resources/read", uri=uri))["contents"]
    assert content["text"] == "Words."


async def test_a_long_note_says_where_it_was_cut(desk, workspace):
    (workspace / "workspace/MEMORY.md").write_text("A line of words.\n" * 200_000, encoding="utf-8")
    (content,) = (await desk.ask("resources/read", uri="memory:///MEMORY.md"))["contents"]
    assert "[... cut here; memory_get reads on from line " in content["text"][-100:]


async def test_answers_of_the_moment_are_not_to_be_kept(desk, logs):
    for method, params in (
        ("resources/list", {}),
        ("resources/read", {"uri": "memory:///MEMORY.md"}),
    ):
        reply = await desk.stateless(method, **params)
        assert (reply["ttlMs"], reply["cacheScope"]) == (0, "private")


async def test_there_are_no_templates_and_one_page_of_everything(desk):
    assert await desk.ask("resources/templates/list") == {"resourceTemplates": []}
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        with pytest.raises(InvalidParamsError, match="page"):
            await desk.ask(method, cursor="2")


async def test_the_prompt_asks_for_a_topic_and_has_it_looked_up(desk):
    prompt, _ = (await desk.ask("prompts/list"))["prompts"]
    got = await desk.ask("prompts/get", name=prompt["name"], arguments={"topic": " the boiler "})
    text = got["messages"][0]["content"]["text"]
    assert text.startswith("What do you remember about the boiler?")
    assert "memory_search" in text


async def test_the_other_prompt_has_something_written_down(desk):
    _, prompt = (await desk.ask("prompts/list"))["prompts"]
    given = {"text": "The {boiler} hums."}
    got = await desk.ask("prompts/get", name="remember", arguments=given)
    text = got["messages"][0]["content"]["text"]
    assert prompt["name"] == "remember"
    assert text.startswith("Remember this: The {boiler} hums.")
    assert "memory_append" in text


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("recall", {}, "topic"),
        ("recall", {"topic": " "}, "topic"),
        ("recall", {"topic": "x" * 2001}, "2,000"),
        ("remember", {"topic": "x"}, "text"),
        ("forget", {"topic": "x"}, "no prompt 'forget'"),
    ],
)
async def test_a_prompt_that_cannot_be_given_says_why(desk, name, arguments, why):
    with pytest.raises(InvalidParamsError, match=why):
        await desk.ask("prompts/get", name=name, arguments=arguments)
