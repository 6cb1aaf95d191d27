"""Oddities that are not errors: unknown keys, retired keys, duplicates."""

from __future__ import annotations

import pytest


def search(text: str) -> str:
    return f"{{agents: {{defaults: {{memorySearch: {{\n{text}\n}}}}}}}}"


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("text", "path", "proposal"),
        [
            (search("providr: 'openai'"), "agents.defaults.memorySearch.providr", "provider"),
            (search("PROVIDER: 'openai'"), "agents.defaults.memorySearch.PROVIDER", "provider"),
            (search("extra_paths: []"), "agents.defaults.memorySearch.extra_paths", "extraPaths"),
            (
                search("maxResults: 5"),
                "agents.defaults.memorySearch.maxResults",
                "query.maxResults",
            ),
            (
                search("query: {hybrid: {vectorWieght: 1}}"),
                "agents.defaults.memorySearch.query.hybrid.vectorWieght",
                "vectorWeight",
            ),
            (
                search("store: {vector: {enable: 1}}"),
                "agents.defaults.memorySearch.store.vector.enable",
                "enabled",
            ),
            ("{memory: {bakend: 'qmd'}}", "memory.bakend", "backend"),
            ("{memory: {qmd: {limits: {timeout: 5}}}}", "memory.qmd.limits.timeout", "timeoutMs"),
            ("{memory: {search: {qurey: {}}}}", "memory.search.qurey", "query"),
            ("{memorySearch: {modell: 'x'}}", "memorySearch.modell", "model"),
            (
                "{agents: {list: [{id: 'main', memorySearch: {chunkng: {}}}]}}",
                "agents.list[0].memorySearch.chunkng",
                "chunking",
            ),
            (
                "{agents: {entries: {main: {memory: {search: {cahce: {}}}}}}}",
                "agents.entries.main.memory.search.cahce",
                "cache",
            ),
            (
                "{agents: {defaults: {compaction: {memoryFlush: {softTreshold: 5}}}}}",
                "agents.defaults.compaction.memoryFlush.softTreshold",
                "softThresholdTokens",
            ),
        ],
    )
    def test_inside_memory_they_are_a_warning_with_the_nearest_known_name(
        self, machine, text, path, proposal
    ):
        (warning,) = machine.load(text).warnings
        assert warning.path == path
        assert warning.message == f'is not a known key and is ignored; did you mean "{proposal}"?'

    def test_what_resembles_nothing_gets_no_proposal(self, machine):
        (warning,) = machine.load(search("'zz top': 1")).warnings
        assert warning.path == 'agents.defaults.memorySearch["zz top"]'
        assert warning.message == "is not a known key and is ignored"
        assert warning.line == 2

    def test_what_is_below_an_unknown_key_is_not_looked_at(self, machine):
        assert len(machine.load(search("qurey: {maxResults: 'x', more: {}}")).warnings) == 1

    @pytest.mark.parametrize(
        "text",
        [
            "{channels: {telegram: {token: 5}}, gateway: {port: 'x'}, models: {mode: 1}}",
            "{agents: {defaults: {model: 5, memry: 1, compaction: {qualityGuard: []}}}}",
            "{agents: {list: [{id: 'main', tools: 5, identity: {name: 1}}], other: 1}}",
            "{agents: {entries: {main: {memory: {other: 1}, model: 2}}}}",
            "{plugins: {slots: {other: 1}, entries: {a: []}}, auth: {cooldowns: 5}, env: {X: 1}}",
            "{session: {sendPolicy: {default: 5}}, tools: null, '$schema': 'x', meta: {a: 1}}",
        ],
    )
    def test_outside_memory_they_are_nobodys_business(self, machine, text):
        assert machine.load(text).warnings == ()

    @pytest.mark.parametrize(
        ("text", "path", "proposal"),
        [
            ("{agent: {}}", "agent", "agents"),
            ("{memroy: {backend: 'qmd'}}", "memroy", "memory"),
            ("{plugin: {}}", "plugin", "plugins"),
            (
                "{agents: {defaults: {worksapce: '~/notes'}}}",
                "agents.defaults.worksapce",
                "workspace",
            ),
            ("{agents: {default: {workspace: 'x'}}}", "agents.default", "defaults"),
            ("{agents: {defaults: {memorysearch: {}}}}", "agents.defaults.memorysearch", None),
            (
                "{agents: {list: [{id: 'main', workspce: 'x'}]}}",
                "agents.list[0].workspce",
                "workspace",
            ),
            ("{plugins: {entries: {memory_gateway: {}}}}", "plugins.entries.memory_gateway", None),
            (
                "{models: {providers: {openai: {apikey: 'x'}}}}",
                "models.providers.openai.apikey",
                "apiKey",
            ),
        ],
    )
    def test_outside_memory_a_slip_in_a_key_that_is_read_is_a_warning(
        self, machine, text, path, proposal
    ):
        (warning,) = machine.load(text).warnings
        assert warning.path == path
        assert f'did you mean "{proposal or ""}' in warning.message

    def test_keys_of_the_hosts_that_resemble_ours_are_not_slips(self, machine):
        text = "{agents: {defaults: {compaction: {model: 'x', reserveTokens: 5}}}}"
        assert machine.load(text).warnings == ()


class TestRetiredKeys:
    @pytest.mark.parametrize(
        "key",
        [
            "multimodal: {enabled: true}",
            "store: {fts: {tokenizer: 'trigram'}}",
            "local: {contextSize: 4096}",
            "remote: {nonBatchConcurrency: 4}",
            "sync: {embeddingBatchTimeoutSeconds: 5}",
            "sync: {sessions: {postCompactionForce: true}}",
            "query: {hybrid: {mmr: {enabled: true}}}",
            "qmd: {extraCollections: []}",
        ],
    )
    def test_keys_of_later_releases_are_accepted_without_effect(self, machine, key):
        (warning,) = machine.load(search(key)).warnings
        assert warning.message.startswith("has no effect here: ")
        assert warning.line == 2

    @pytest.mark.parametrize(
        "key",
        [
            "mode: 'cli'",
            "mcporter: {enabled: true}",
            "rerank: false",
            "searchTool: 'query'",
            "update: {startup: 'idle'}",
            "update: {startupDelayMs: 5}",
        ],
    )
    def test_so_are_those_of_qmd(self, machine, key):
        (warning,) = machine.load(f"{{memory: {{qmd: {{{key}}}}}}}").warnings
        assert warning.path.startswith("memory.qmd.")
        assert "has no effect here" in warning.message

    @pytest.mark.parametrize("key", ["enabled: false", "keepRecentTokens: 5", "notifyUser: true"])
    def test_so_are_those_of_compaction_that_only_the_chat_gateway_can_heed(self, machine, key):
        (warning,) = machine.load(f"{{agents: {{defaults: {{compaction: {{{key}}}}}}}}}").warnings
        assert warning.message.startswith("has no effect here: ")

    def test_a_retired_key_is_never_proposed(self, machine):
        (warning,) = machine.load(search("multimodl: {}")).warnings
        assert "multimodal" not in warning.message

    def test_null_for_a_retired_key_is_nothing(self, machine):
        assert machine.load(search("multimodal: null")).warnings == ()


class TestDuplicates:
    def test_of_two_members_the_last_counts_with_a_warning(self, machine):
        settings = machine.load(search("model: 'a',\nmodel: 'b',\nmodel: 'c'"))
        assert settings.search.model == "c"
        (warning,) = settings.warnings
        assert warning.path == "agents.defaults.memorySearch.model"
        assert warning.line == 4
        assert warning.message == "appears twice; the one in line 3 is ignored"

    def test_a_whole_object_may_be_lost_that_way(self, machine):
        settings = machine.load("{agents: {defaults: {memorySearch: {model: 'a'}}},\nagents: {}}")
        assert settings.search.model is None
        (warning,) = settings.warnings
        assert (warning.path, warning.line) == ("agents", 2)

    def test_duplicates_outside_memory_are_nobodys_business(self, machine):
        assert machine.load("{channels: 1, channels: 2, models: {mode: 1, mode: 2}}").warnings == ()


def test_warnings_come_in_the_order_of_the_file(machine):
    settings = machine.load(
        search("a1: 1,\nquery: {b2: 1,\nmaxResults: 5},\nmultimodal: {},\nc3: 1")
    )
    assert [warning.line for warning in settings.warnings] == [2, 3, 5, 6]


class TestAddressesThatCannotBeUsed:
    @pytest.mark.parametrize(
        ("address", "cause"),
        [
            ("http://ada:geheim99@h/v1", "user name or password"),
            ("http://h/v1?key=geheim99", "query or fragment"),
            ("http://h:99999/v1", "no valid port"),
            ("http://[::1/v1", "unclosed bracket"),
            ("http://h/v1\\r\\nX: geheim99", "control character"),
        ],
    )
    def test_they_are_named_with_their_line_and_stay_so_that_no_default_gets_their_key(
        self, machine, address, cause
    ):
        settings = machine.load(search(f"remote: {{baseUrl: '{address}', apiKey: 'sk-1'}}"))
        (warning,) = settings.warnings
        assert (warning.path, warning.line) == ("agents.defaults.memorySearch.remote.baseUrl", 2)
        assert cause in warning.message
        assert "geheim99" not in warning.message
        assert settings.search.remote.base_url is not None
