"""MCP's methods over a real memory: results in the form of each era, errors reported to the right side."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from backends.builtin.backend import BuiltinBackend
from config.settings import ScopeMatch, ScopePolicy, ScopeRule
from fakes.settings import make_settings
from gateway.agent.memory import open_memory
from gateway.mcp.eras import UnsupportedRevisionError
from gateway.mcp.mcp_methods import CallParams, ListParams, mcp_methods, tool_list
from gateway.rpc.registry import RequestContext, Session
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import ONLY_WORDS

pytestmark = pytest.mark.anyio

SERVER_KEY = "io.modelcontextprotocol/serverInfo"


async def test_initialize_satisfies_both_protocols_with_one_reply(desk):
    reply = await desk.ask(
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={"roots": {}},
        clientInfo={"name": "desk", "version": "1"},
    )
    assert reply["protocolVersion"] == "2025-06-18"
    assert reply["serverInfo"]["name"] == "memory-gateway"
    assert {"tools", "resources", "prompts"} <= set(reply["capabilities"])
    assert "memory_search" in reply["instructions"]
    assert (reply["name"], reply["protocol"], reply["agentId"]) == ("memory-gateway", "1", "main")
    assert "memory_search" in reply["capabilities"]["methods"]
    assert desk.session.client == "desk"


async def test_what_later_revisions_add_to_initialize_is_let_through_and_slips_of_ours_are_not(
    desk,
):
    reply = await desk.ask("initialize", protocolVersion="2099-01-01", clientInfo={}, locale="de")
    assert reply["serverInfo"]["name"] == "memory-gateway"
    with pytest.raises(InvalidParamsError) as refused:
        await desk.ask("initialize", client="x", sesionKey="agent:main:main")
    assert refused.value.details["unknown"] == ["sesionKey"]


async def test_our_own_initialize_still_works(desk):
    reply = await desk.ask("initialize", client="x", sessionKey="agent:main:main")
    assert reply["agentId"] == "main"
    assert desk.session.session_key == "agent:main:main"


async def test_discovery_names_versions_tools_and_how_long_that_holds(desk):
    reply = await desk.stateless("server/discover")
    assert reply["supportedVersions"][0] == "2026-07-28"
    assert {"2025-06-18", "2025-11-25"} < set(reply["supportedVersions"])
    assert reply["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
    assert (reply["resultType"], reply["cacheScope"]) == ("complete", "public")
    assert reply["ttlMs"] > 0
    assert reply["_meta"][SERVER_KEY]["name"] == "memory-gateway"


async def test_discovery_belongs_to_the_stateless_era(desk):
    with pytest.raises(InvalidParamsError):
        await desk.ask("server/discover")
    with pytest.raises(UnsupportedRevisionError):
        await desk.stateless(
            "server/discover", meta={"io.modelcontextprotocol/protocolVersion": "2199-01-01"}
        )


async def test_a_list_has_the_form_of_its_era(desk):
    listed = await desk.ask("tools/list")
    assert set(listed) == {"tools"}
    stateless = await desk.stateless("tools/list")
    assert stateless["tools"] == listed["tools"] == tool_list(appends=False)
    assert set(stateless) == {"tools", "ttlMs", "cacheScope", "resultType", "_meta"}


async def test_there_is_one_page(desk):
    with pytest.raises(InvalidParamsError, match="page"):
        await desk.ask("tools/list", cursor="2")


async def test_ping_answers_in_both_eras(desk):
    assert await desk.ask("ping") == {}
    assert (await desk.stateless("ping"))["resultType"] == "complete"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("memory_search", {"query": "boiler"}, "serviced by Hartmann"),
        ("memory_search", {"query": "nothing of the kind zzz"}, "Nothing found (empty)"),
        ("memory_get", {"path": "memory/a.md", "from": 3, "lines": 1}, "serviced by Hartmann"),
        ("memory_get", {"path": "memory/absent.md"}, "There is no memory/absent.md"),
        ("memory_get", {"path": "[[absent]]"}, "There is no [[absent]]"),
    ],
)
async def test_a_call_answers_once_as_text_in_every_era(desk, name, arguments, said):
    for ask in (desk.ask, desk.stateless):
        result = await ask("tools/call", name=name, arguments=arguments)
        assert result["isError"] is False
        assert "structuredContent" not in result
        (content,) = result["content"]
        assert said in content["text"]
    assert (result["resultType"], SERVER_KEY in result["_meta"]) == ("complete", True)


async def test_a_path_that_is_refused_is_an_error_that_the_model_can_read(desk):
    result = await desk.ask("tools/call", name="memory_get", arguments={"path": "/etc/passwd"})
    assert result["isError"] is True
    assert "Reading '/etc/passwd' is not allowed" in result["content"][0]["text"]


async def test_a_memory_that_is_off_is_an_error_with_its_cause(tmp_path):
    settings = make_settings(tmp_path, search={"enabled": False})
    async with open_memory(settings) as memory:
        methods = {method.name: method for method in mcp_methods(memory)}
        params = CallParams(name="memory_search", arguments={"query": msgspec.Raw(b'"x"')})
        result = await methods["tools/call"].handler(params, RequestContext(session=Session()))
    assert result["isError"] is True
    assert "(disabled)" in result["content"][0]["text"]
    assert "enabled" in result["content"][0]["text"]


async def test_a_memory_that_holds_nothing_says_so_and_not_that_a_model_would_help(workspace, desk):
    (workspace / "workspace/memory/a.md").unlink()
    result = await desk.ask("tools/call", name="memory_search", arguments={"query": "boiler"})
    empty, why = result["content"][0]["text"].splitlines()
    assert empty == "Nothing found (empty)."
    assert why == "Nothing is indexed: `memory-gateway status` says why."
    (workspace / "workspace/memory/a.md").write_text("The pump.\n", encoding="utf-8")
    answer = await desk.ask("memory_search", query="boiler")
    assert answer["warning"] == ONLY_WORDS


async def test_an_index_that_is_known_to_hold_notes_is_not_counted_again(desk, monkeypatch):
    await desk.ask("memory_search", query="boiler")
    monkeypatch.setattr(BuiltinBackend, "overview", None)
    monkeypatch.setattr(BuiltinBackend, "status", None)
    assert (await desk.ask("memory_search", query="zeppelin"))["warning"] == ONLY_WORDS


@pytest.mark.parametrize("appends", [False, True])
async def test_an_unknown_tool_is_answered_with_those_that_are_offered(desk, appends):
    desk.memory.settings = replace(desk.memory.settings, append_enabled=appends)
    with pytest.raises(InvalidParamsError, match="no tool 'memory_write'") as refused:
        await desk.ask("tools/call", name="memory_write")
    assert ("memory_append" in str(refused.value)) is appends
    assert "memory_search, memory_get" in str(refused.value)


async def test_another_word_that_only_looks_alike_is_not_proposed_for_an_argument(desk):
    arguments = {"text": "x", "target": "daily"}
    result = await desk.ask("tools/call", name="memory_append", arguments=arguments)
    assert result["content"][0]["text"] == (
        "memory_append has no parameter `target`. memory_append takes `text`."
    )


async def test_null_means_not_given(desk):
    arguments = {"query": "boiler", "maxResults": None, "sources": None}
    result = await desk.ask("tools/call", name="memory_search", arguments=arguments)
    assert "Hartmann" in result["content"][0]["text"]


async def test_a_whole_number_may_be_spelt_with_a_point_as_its_schema_permits(desk):
    arguments = {"query": "boiler 2.0", "maxResults": 1.0, "minScore": 0.0}
    result = await desk.ask("tools/call", name="memory_search", arguments=arguments)
    assert result["content"][0]["text"].count("<passage ") == 1
    for lines in (1.5, "1.0"):
        arguments = {"path": "MEMORY.md", "lines": lines}
        result = await desk.ask("tools/call", name="memory_get", arguments=arguments)
        assert "`lines` cannot be" in result["content"][0]["text"]


async def test_an_argument_of_very_many_digits_takes_no_longer_than_others(desk):
    """In time quadratic in their number, these took six minutes in which nobody was answered."""
    result = await desk.ask("tools/call", name="memory_get", arguments={"path": "1" * 400_000})
    assert result["content"][0]["text"]


WRONG = [
    ("memory_search", {}, "query"),
    ("memory_search", {"query": " "}, "query"),
    ("memory_search", {"query": "x", "maxResults": 0}, "maxResults"),
    ("memory_search", {"query": "x", "after": "yesterday"}, "after"),
    ("memory_search", {"query": "x", "sessionKey": "agent:main:main"}, "sessionKey"),
    ("memory_get", {"pth": "MEMORY.md"}, "pth"),
]


@pytest.mark.parametrize(("name", "arguments", "named"), WRONG)
async def test_wrong_arguments_are_explained_to_the_model(desk, name, arguments, named):
    for result in (
        await desk.ask("tools/call", name=name, arguments=arguments),
        await desk.stateless("tools/call", name=name, arguments=arguments),
    ):
        assert result["isError"] is True
        assert named in result["content"][0]["text"]
        assert "structuredContent" not in result


@pytest.mark.parametrize(("name", "arguments", "named"), WRONG)
async def test_an_older_revision_has_them_as_errors_of_the_protocol(desk, name, arguments, named):
    await desk.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})
    with pytest.raises(InvalidParamsError, match=named):
        await desk.ask("tools/call", name=name, arguments=arguments)


async def test_an_unknown_tool_is_an_error_of_the_protocol(desk):
    with pytest.raises(InvalidParamsError, match="memory_serach"):
        await desk.ask("tools/call", name="memory_serach", arguments={})


async def test_what_extensions_add_to_a_request_is_ignored(desk):
    result = await desk.ask(
        "tools/call", name="memory_get", arguments={"path": "memory/a.md"}, task={"ttl": 1}
    )
    assert result["isError"] is False


@pytest.mark.parametrize("token", ["abc", 7])
async def test_progress_is_told_to_who_asks_for_it_and_counts_up(desk, monkeypatch, token):
    monkeypatch.setattr("gateway.mcp.mcp_methods.SIGN_OF_LIFE_S", 0.0)
    arguments = {"query": "boiler"}
    await desk.ask(
        "tools/call", name="memory_search", arguments=arguments, _meta={"progressToken": token}
    )
    assert {method for method, _ in desk.heard} == {"notifications/progress"}
    progress = [params for _, params in desk.heard]
    assert {params["progressToken"] for params in progress} == {token}
    assert [params["progress"] for params in progress] == sorted(
        params["progress"] for params in progress
    )


@pytest.mark.parametrize("meta", [None, {}, {"progressToken": None}, {"progressToken": True}])
async def test_nobody_is_told_of_progress_unasked(desk, meta):
    await desk.ask("tools/call", name="memory_search", arguments={"query": "x"}, _meta=meta)
    assert desk.heard == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("memory_search", {"query": "boiler"}), ("memory_get", {"path": "x.md"})],
)
async def test_scope_goes_by_the_conversation_that_the_host_named(desk, name, arguments):
    only_direct = ScopeRule(action="allow", match=ScopeMatch(chat_type="direct"))
    scope = ScopePolicy(default="deny", rules=(only_direct,))
    desk.memory.settings = replace(desk.memory.settings, scope=scope)
    said = []
    for key in ("agent:main:main", "agent:main:telegram:group:1"):
        desk.session.session_key = key
        said.append((await desk.ask("tools/call", name=name, arguments=arguments))["content"])
    allowed, denied = (one[0]["text"] for one in said)
    assert "may not" not in allowed
    assert "may not" in denied


async def test_a_model_may_append_where_the_owner_of_the_notes_allows_it(workspace):
    settings = make_settings(workspace, search={"provider": "none"}, append_enabled=True)
    async with open_memory(settings, background=False) as memory:
        methods = {method.name: method for method in mcp_methods(memory)}
        context = RequestContext(session=Session())
        listed = await methods["tools/list"].handler(ListParams(), context)
        assert [tool["name"] for tool in listed["tools"]][-1] == "memory_append"
        arguments = {"text": msgspec.Raw(b'"- The kettle is descaled."')}
        params = CallParams(name="memory_append", arguments=arguments)
        result = await methods["tools/call"].handler(params, context)
    assert result["isError"] is False
    (log_file,) = (settings.workspace / "memory").glob("20*.md")
    assert f"memory/{log_file.name}, line 3." in result["content"][0]["text"]
    log = log_file.read_text(encoding="utf-8")
    assert log.endswith("- The kettle is descaled.\n")


async def test_a_model_that_may_not_append_is_told_why_also_as_a_claimed_operator(desk):
    desk.session.operator = True
    result = await desk.ask("tools/call", name="memory_append", arguments={"text": "x"})
    assert result["isError"] is True
    for remedy in ("append.enabled", "`memory-gateway connect CLIENT --write`"):
        assert remedy in result["content"][0]["text"]
    assert sorted(path.name for path in (desk.memory.settings.workspace / "memory").iterdir()) == [
        "a.md"
    ]
