"""The origin of every effective value."""

from __future__ import annotations

from config.settings import SettingOrigin
from fakes.each import each

TEXT = """{
  memory: {backend: 'qmd'},
  agents: {
    defaults: {memorySearch: {
      provider: 'openai', model: '${MODEL}',
      extraPaths: ['/a']}},
    list: [{id: 'ops', agentDir: '/d',
      memorySearch: {model: 'own', extraPaths: ['/b'], remote: {apiKey: '${A}${B}'}}}],
  },
  models: {providers: {openai: {apiKey: 'x'}, 'my.host': {apiKey: 'y'}}},
  auth: {order: {openai: ['p']}},
}"""
BOTH_LEVELS = (
    "agents.defaults.memorySearch.extraPaths, line 6; "
    "agents.list[0].memorySearch.extraPaths, line 8"
)
ENVIRONMENT = {"MODEL": "m", "A": "a", "B": "b", "OPENAI_API_KEY": "sk"}


@each(
    ("agent_id", "path", "detail"),
    [
        (None, "backend", "memory.backend, line 2"),
        (None, "provider", "agents.defaults.memorySearch.provider, line 5"),
        (None, "model", "agents.list[0].memorySearch.model, line 8"),
        ("x", "model", "agents.defaults.memorySearch.model, line 5, from ${MODEL}"),
        (
            None,
            "extraPaths",
            BOTH_LEVELS,
        ),
        (
            None,
            "remote.apiKey",
            "agents.list[0].memorySearch.remote.apiKey, line 8, from ${A}, from ${B}",
        ),
        (None, "agentDir", "agents.list[0].agentDir, line 7"),
        (None, "agentId", "agents.list[0]"),
        (None, "models.providers.openai.apiKey", "models.providers.openai.apiKey, line 10"),
        (
            None,
            'models.providers["my.host"].apiKey',
            'models.providers["my.host"].apiKey, line 10',
        ),
        (None, "auth.order.openai", "auth.order.openai, line 11"),
    ],
)
def test_a_value_of_the_file_names_its_path_and_line(machine, agent_id, path, detail):
    settings = machine.load(TEXT, environment=ENVIRONMENT, agent_id=agent_id)
    assert settings.origins[path] == SettingOrigin(kind="file", detail=detail)


def test_what_no_file_gives_is_a_default(machine):
    origins = machine.load(TEXT, environment=ENVIRONMENT).origins
    for path in ("citations", "fallback", "workspace", "compaction.mode"):
        assert origins[path] == SettingOrigin(kind="default")


def test_what_the_request_says_comes_from_the_command_line(machine):
    origins = machine.load(TEXT, environment=ENVIRONMENT, agent_id="ops", workspace="/w").origins
    assert origins["agentId"] == SettingOrigin(kind="command-line", detail="--agent")
    assert origins["workspace"] == SettingOrigin(kind="command-line", detail="--workspace")


def test_a_key_in_a_variable_comes_from_the_environment(machine):
    origins = machine.load(TEXT, environment=ENVIRONMENT).origins
    assert origins["OPENAI_API_KEY"] == SettingOrigin(kind="environment", detail="OPENAI_API_KEY")


def test_weights_that_were_divided_say_so(machine):
    settings = machine.load("{memory: {search: {query: {hybrid: {vectorWeight: 1}}}}}")
    hybrid = "query.hybrid"
    assert settings.origins[f"{hybrid}.vectorWeight"] == SettingOrigin(
        kind="file",
        detail="memory.search.query.hybrid.vectorWeight, line 1, divided by the sum of both weights",
    )
    assert settings.origins[f"{hybrid}.textWeight"] == SettingOrigin(
        kind="derived", detail="divided by the sum of both weights"
    )
