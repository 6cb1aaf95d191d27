"""The effective configuration as a table and as JSON."""

from __future__ import annotations

import json
import os

import msgspec
import pytest

from config.describe import describe_json, describe_rows, nearest_path, rows_of
from fakes.each import each

KEY = "sk-live-0123456789"
TEXT = f"""{{
  memory: {{qmd: {{update: {{interval: '90s'}}, paths: [{{path: '/q', name: 'n'}}],
    scope: {{rules: [{{action: 'deny', match: {{chatType: 'group'}}}}]}}}}}},
  agents: {{defaults: {{memorySearch: {{
    sources: ['memory'], extraPaths: ['/a', {{path: '/b', pattern: '*.md'}}],
    remote: {{baseUrl: 'https://ada:{KEY}@host/v1', apiKey: '{KEY}', headers: {{'X-Auth': '{KEY}'}}}},
    store: {{path: '/i/{{agentId}}'}}, unknown: 1,
  }}}}}},
  models: {{providers: {{
    openai: {{api: 'openai-completions', apiKey: '{KEY}',
      baseUrl: 'https://h/?key={KEY}', headers: {{a: '{KEY}'}}}}, google: {{}},
    'my.host': {{apiKey: '${{MISSING}}', baseUrl: 'x'}}}}}},
  auth: {{profiles: {{p: {{provider: 'openai', mode: 'api_key'}}}}, order: {{openai: ['p']}}}},
}}"""


@pytest.fixture
def settings(machine):
    return machine.load(TEXT, environment={"VOYAGE_API_KEY": KEY})


def test_every_origin_has_its_row_and_the_other_way_round(settings):
    paths = [row.path for row in describe_rows(settings)]
    assert len(paths) == len(set(paths))
    assert set(paths) == set(settings.origins)


def test_identity_comes_first(settings):
    assert [row.path for row in describe_rows(settings)][:3] == [
        "agentId",
        "configPath",
        "stateDir",
    ]


@each(
    ("path", "value", "text"),
    [
        ("agentId", "main", "main"),
        ("enabled", True, "true"),
        ("model", None, "–"),
        ("sources", ["memory"], '["memory"]'),
        ("extraPaths", ["/a", {"path": "/b", "pattern": "*.md"}], None),
        ("remote.apiKey", "***", "***"),
        ("remote.headers", {"X-Auth": "***"}, '{"X-Auth":"***"}'),
        ("remote.baseUrl", "https://***@host/v1", "https://***@host/v1"),
        ("store.path", "/i/main", "/i/main"),
        ("local.modelCacheDir", None, "–"),
        ("query.minScore", 0.35, "0.35"),
        ("cache.maxEntries", None, "–"),
        ("qmd.update.interval", "90s", "90s"),
        ("qmd.update.embedInterval", "1h", "1h"),
        ("qmd.paths", [{"path": "/q", "name": "n", "pattern": "**/*.md"}], None),
        (
            "qmd.scope",
            {"default": "allow", "rules": [{"action": "deny", "match": {"chatType": "group"}}]},
            None,
        ),
        ("scope", None, "–"),
        ("models.providers.openai.api", "openai-completions", None),
        ("models.providers.openai.apiKey", "***", "***"),
        ("models.providers.openai.baseUrl", "https://h/?key=***", None),
        ("models.providers.openai.headers", {"a": "***"}, None),
        ('models.providers["my.host"].apiKey', None, "–"),
        ("auth.profiles.p.provider", "openai", "openai"),
        ("auth.profiles.p.mode", "api_key", "api_key"),
        ("auth.order.openai", ["p"], '["p"]'),
        ("VOYAGE_API_KEY", "***", "***"),
    ],
)
def test_a_value_is_shown_as_one_would_write_it(settings, path, value, text):
    row = next(row for row in describe_rows(settings) if row.path == path)
    assert row.value == value
    if text is not None:
        assert row.value_text == text


def test_no_secret_is_in_any_of_it(settings):
    assert KEY not in repr(describe_rows(settings))
    assert KEY not in json.dumps(describe_json(settings))
    assert KEY not in repr(settings.search.remote.api_key)


@each(
    ("path", "shown"),
    [
        (f"https://ada:{KEY}@h/m.gguf", "https://***@h/m.gguf"),
        (f"https://h/m.gguf?token={KEY}", "https://h/m.gguf?token=***"),
        ("/m/sk-12345678", "/m/sk-12345678"),
    ],
)
def test_a_password_in_the_address_of_a_model_is_not_shown(machine, path, shown):
    described = describe_json(machine.load(f"{{memorySearch: {{local: {{modelPath: '{path}'}}}}}}"))
    assert described["values"]["local.modelPath"]["value"] == shown


def test_an_origin_is_shown_with_its_kind(settings):
    rows = {row.path: row.origin_text for row in describe_rows(settings)}
    assert rows["qmd.paths"] == "file: memory.qmd.paths, line 2"
    assert rows["citations"] == "default"
    assert rows["VOYAGE_API_KEY"] == "environment: VOYAGE_API_KEY"


def test_json_holds_values_origins_and_warnings(settings):
    described = describe_json(settings)
    assert described["values"]["qmd.update.interval"] == {
        "value": "90s",
        "origin": {"kind": "file", "detail": "memory.qmd.update.interval, line 2"},
    }
    assert described["values"]["backend"]["value"] == "builtin"
    assert [warning["path"] for warning in described["warnings"]] == [
        "agents.defaults.memorySearch.remote.baseUrl", "agents.defaults.memorySearch.unknown",
    ]  # fmt: skip
    assert json.loads(json.dumps(described)) == described


def test_a_default_configuration_is_described_too(machine):
    described = describe_json(machine.load())
    assert described["values"]["configPath"]["value"] is None
    assert described["warnings"] == []
    assert len(described["values"]) > 80


def test_a_file_name_that_is_no_text_is_still_encoded(machine):
    workspace = os.fsdecode(b"/w/caf\xe9")
    settings = machine.load(workspace=workspace)
    assert msgspec.json.encode(describe_json(settings))
    assert describe_json(settings)["values"]["workspace"]["value"] == "/w/caf?"


@each(
    "key",
    [
        "query.maxResults",
        "agents.defaults.memorySearch.query.maxResults",
        "memory.search.query.maxResults",
        "plugins.entries.memory-gateway.config.search.query.maxResults",
    ],
)
def test_a_setting_is_found_by_every_place_where_it_may_stand(machine, key):
    (row,) = rows_of(describe_rows(machine.load()), key)
    assert row.path == "query.maxResults"


def test_a_setting_is_found_by_its_other_name(machine):
    (row,) = rows_of(
        describe_rows(machine.load()), "memorySearch.query.hybrid.temporalDecay.enabled"
    )
    assert row.path == "query.decay.enabled"


def test_a_part_of_a_path_means_all_below_it(machine):
    rows = rows_of(describe_rows(machine.load()), "query")
    assert len(rows) > 5
    assert all(row.path.startswith("query.") for row in rows)


def test_what_is_no_setting_has_no_row_but_perhaps_a_neighbour(machine):
    rows = describe_rows(machine.load())
    assert rows_of(rows, "memorySearch.qerry") == ()
    assert nearest_path(rows, "memorySearch.providr") == "provider"
    assert nearest_path(rows, "provider") == "provider"
    assert nearest_path(rows, "zz top") is None
