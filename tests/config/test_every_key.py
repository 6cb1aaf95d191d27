"""Every documented key, row by row: default, what is allowed, what is refused, what is cut.

The table restates the documentation on purpose: it must not be derived from the code it checks.
Values are JSON5 text as a user would write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from config.build import field_of
from config.keys import SECTIONS

DAYS_24_8 = 2_147_483_647
MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"

NOT_A_FLAG = ("'yes'", "1", "[]", "{}")
NOT_A_WORD = ("1", "true", "[]", "{}", "'nonsense'")
NOT_A_TEXT = ("1", "true", "[]", "{}")
NOT_WHOLE = (
    "'5'",
    "true",
    "-1",
    "6.5",
    "Infinity",
    "-Infinity",
    "NaN",
    "[]",
    "{}",
    "-0x10",
    "1e308",
)
NOT_WHOLE_FLOORED = tuple(value for value in NOT_WHOLE if value != "6.5")
NOT_POSITIVE = (*NOT_WHOLE, "0")
NOT_POSITIVE_FLOORED = (*NOT_WHOLE_FLOORED, "0", "0.9")
NOT_A_NUMBER = ("'0.5'", "true", "[]", "{}", "NaN", "Infinity")
NOT_A_LIST = ("'memory'", "1", "true", "{}")
# A key without a bound of its own still has one: what a 53-bit number can tell apart.
TIMER = {"1e308": DAYS_24_8, "99999999999": DAYS_24_8}
WHOLE_MS = tuple(value for value in NOT_WHOLE if value != "1e308")


class Row(NamedTuple):
    path: str
    """Where the documentation puts it."""
    attribute: str
    """Where it stands in the settings."""
    default: Any
    valid: dict[str, Any]
    """Text in the file to value in the settings, without a warning."""
    invalid: tuple[str, ...] = ()
    """Texts that make the file invalid."""
    cut: Mapping[str, Any] = MappingProxyType({})
    """Texts that are accepted with a warning, and what then applies."""


SEARCH = "agents.defaults.memorySearch"
FLAG = {"true": True, "false": False, "null": None}
PATHS = {
    "'/abs/../x'": Path("/x"),
    "'~/x'": "HOME/x",
    "'rel/x'": "CWD/rel/x",
    "'  ~/x '": "HOME/x",
}


def words(*values: str) -> dict[str, str]:
    return {f"'{value}'": value for value in values}


ROWS = [
    # memory.*
    Row("memory.backend", "backend", "builtin", words("builtin", "qmd"), NOT_A_WORD),
    Row("memory.citations", "citations", "auto", words("auto", "on", "off"), NOT_A_WORD),
    Row("memory.append.enabled", "append_enabled", False, FLAG, NOT_A_FLAG),
    Row(
        "memory.qmd.command",
        "qmd.command",
        "qmd",
        {"'/opt/qmd'": "/opt/qmd", "' qmd2 '": "qmd2", "''": "qmd", "\"'a b'\"": "a b"}
        | {"'~/bin/qmd'": "HOME/bin/qmd", "\"''\"": "qmd"},
        (*NOT_A_TEXT, "'\"open'", "'a\\0b'"),
        {"'npx qmd --x'": "npx"},
    ),
    Row("memory.qmd.mode", "qmd.mode", "warm", words("warm", "cli"), NOT_A_WORD),
    Row(
        "memory.qmd.searchMode",
        "qmd.search_mode",
        "query",
        words("query", "search", "vsearch"),
        NOT_A_WORD,
    ),
    Row("memory.qmd.includeDefaultMemory", "qmd.include_default_memory", True, FLAG, NOT_A_FLAG),
    Row("memory.qmd.sessions.enabled", "qmd.sessions.enabled", False, FLAG, NOT_A_FLAG),
    Row(
        "memory.qmd.sessions.exportDir",
        "qmd.sessions.export_dir",
        "STATE/agents/main/qmd/sessions",
        {
            "'/abs'": Path("/abs"),
            "'~/x'": "HOME/x",
            "'x'": "WORKSPACE/x",
            "' '": "STATE/agents/main/qmd/sessions",
        },
        NOT_A_TEXT,
    ),
    Row(
        "memory.qmd.sessions.retentionDays",
        "qmd.sessions.retention_days",
        None,
        {"30": 30, "0": None, "30.0": 30, "1": 1},
        tuple(value for value in NOT_WHOLE_FLOORED if value != "1e308"),
        {"7.9": 7, "0.5": None, "1e9": 36_500},
    ),
    Row(
        "memory.qmd.update.interval",
        "qmd.update.interval_ms",
        300_000,
        {"'90s'": 90_000, "'10'": 600_000, "'0'": 0, "10": 600_000, "0.5": 30_000, "0": 0}
        | {"' 1H '": 3_600_000, "'1.5m'": 90_000, "'250ms'": 250, "' '": 300_000},
        ("true", "[]", "{}"),
        {"'5 minutes'": 300_000, "'-5m'": 300_000, "-5": 300_000, "NaN": 300_000}
        | {"Infinity": 300_000, "'30d'": DAYS_24_8, "-0xffffffffffffffffffff": 300_000},
    ),
    Row(
        "memory.qmd.update.embedInterval",
        "qmd.update.embed_interval_ms",
        3_600_000,
        {"'30m'": 1_800_000, "'2h'": 7_200_000, "'0'": 0, "15": 900_000},
        ("true", "[]", "{}"),
        {"'often'": 3_600_000, "'365d'": DAYS_24_8},
    ),
    Row(
        "memory.qmd.update.debounceMs",
        "qmd.update.debounce_ms",
        15_000,
        {"0": 0, "500": 500, "500.0": 500},
        WHOLE_MS,
        TIMER,
    ),
    Row("memory.qmd.update.onBoot", "qmd.update.on_boot", True, FLAG, NOT_A_FLAG),
    Row(
        "memory.qmd.update.waitForBootSync",
        "qmd.update.wait_for_boot_sync",
        False,
        FLAG,
        NOT_A_FLAG,
    ),
    *(
        Row(
            f"memory.qmd.{path}",
            f"qmd.{attribute}",
            default,
            {"1": 1, "60000": 60_000},
            WHOLE_MS,
            {"0": default, **TIMER},
        )
        for path, attribute, default in [
            ("update.commandTimeoutMs", "update.command_timeout_ms", 30_000),
            ("update.updateTimeoutMs", "update.update_timeout_ms", 120_000),
            ("update.embedTimeoutMs", "update.embed_timeout_ms", 120_000),
            ("limits.timeoutMs", "limits.timeout_ms", 4000),
        ]
    ),
    Row(
        "memory.qmd.limits.maxResults",
        "qmd.limits.max_results",
        6,
        {"1": 1, "50": 50},
        NOT_POSITIVE_FLOORED,
        {"6.9": 6},
    ),
    Row(
        "memory.qmd.limits.maxSnippetChars",
        "qmd.limits.max_snippet_chars",
        700,
        {"1": 1, "900": 900},
        NOT_POSITIVE,
    ),
    Row(
        "memory.qmd.limits.maxInjectedChars",
        "qmd.limits.max_injected_chars",
        4000,
        {"1": 1, "9000": 9000},
        NOT_POSITIVE,
    ),
    # agents.defaults.memorySearch.*
    Row(f"{SEARCH}.enabled", "search.enabled", True, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.sources",
        "search.sources",
        ("memory",),
        {"['memory']": ("memory",), "['memory', 'memory']": ("memory",), "[]": ("memory",)},
        (*NOT_A_LIST, "['notes']", "[1]", "[null]"),
        {"['memory', 'sessions']": ("memory",), "['sessions']": ("memory",)},
    ),
    Row(f"{SEARCH}.experimental.sessionMemory", "search.session_memory", False, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.provider",
        "search.provider",
        "auto",
        words("auto", "openai", "gemini", "voyage", "local", "none"),
        (*NOT_A_WORD, "'OpenAI'", "'ollama'"),
    ),
    Row(
        f"{SEARCH}.fallback",
        "search.fallback",
        "none",
        words("openai", "gemini", "voyage", "local", "none"),
        (*NOT_A_WORD, "'auto'"),
    ),
    Row(
        f"{SEARCH}.model",
        "search.model",
        None,
        {"'text-embedding-3-large'": "text-embedding-3-large", "''": None, "' m '": "m"},
        NOT_A_TEXT,
    ),
    Row(
        f"{SEARCH}.outputDimensionality",
        "search.output_dimensionality",
        None,
        {"768": 768},
        NOT_POSITIVE,
    ),
    Row(f"{SEARCH}.queryInputType", "search.query_input_type", None, words("query"), NOT_A_TEXT),
    Row(
        f"{SEARCH}.documentInputType",
        "search.document_input_type",
        None,
        words("passage"),
        NOT_A_TEXT,
    ),
    Row(
        f"{SEARCH}.remote.baseUrl",
        "search.remote.base_url",
        None,
        words("https://api.example.com/v1", "http://localhost:1234", "HTTPS://X/") | {"''": None},
        (*NOT_A_TEXT, "'api.example.com'", "'ftp://x'", "'file:///etc'"),
    ),
    Row(
        f"{SEARCH}.remote.headers",
        "search.remote.headers",
        {},
        {"{}": {}, "{'X-A': 'b', 'x-a': 'c'}": {"X-A": "b", "x-a": "c"}, "{'X-A': ''}": {}},
        (
            "'x'",
            "[]",
            "1",
            "{'X-A': 1}",
            "{'X-A': null}",
            "{'X\\nA': 'b'}",
            "{'X-A': 'b\\r\\nc'}",
            "{'': 'b'}",
        ),
    ),
    Row(f"{SEARCH}.remote.batch.enabled", "search.remote.batch.enabled", True, FLAG, NOT_A_FLAG),
    Row(f"{SEARCH}.remote.batch.wait", "search.remote.batch.wait", True, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.remote.batch.concurrency",
        "search.remote.batch.concurrency",
        2,
        {"1": 1, "8": 8},
        NOT_POSITIVE,
    ),
    Row(
        f"{SEARCH}.remote.batch.pollIntervalMs",
        "search.remote.batch.poll_interval_ms",
        2000,
        {"0": 0, "5000": 5000},
        WHOLE_MS,
        TIMER,
    ),
    Row(
        f"{SEARCH}.remote.batch.timeoutMinutes",
        "search.remote.batch.timeout_minutes",
        60,
        {"1": 1, "1440": 1440},
        (*WHOLE_MS, "0"),
        {"99999": 35_791},
    ),
    Row(
        f"{SEARCH}.local.modelPath",
        "search.local.model_path",
        MODEL,
        {
            "'hf:a/b/c.gguf'": "hf:a/b/c.gguf",
            "'https://host/c.gguf'": "https://host/c.gguf",
            "'/models/c.gguf'": "/models/c.gguf",
            "'~/c.gguf'": "HOME/c.gguf",
            "'c.gguf'": "CWD/c.gguf",
            "''": MODEL,
        },
        NOT_A_TEXT,
    ),
    Row(
        f"{SEARCH}.local.modelCacheDir",
        "search.local.model_cache_dir",
        None,
        PATHS,
        (*NOT_A_TEXT, "'a\\0b'"),
    ),
    Row(f"{SEARCH}.store.driver", "search.store.driver", "sqlite", words("sqlite"), NOT_A_WORD),
    Row(
        f"{SEARCH}.store.path",
        "search.store.path",
        "STATE/memory/main.sqlite",
        {
            **PATHS,
            "'/i/{agentId}.db'": Path("/i/main.db"),
            "'/{agentId}/{agentId}'": Path("/main/main"),
            "''": "STATE/memory/main.sqlite",
        },
        NOT_A_TEXT,
    ),
    Row(f"{SEARCH}.store.vector.enabled", "search.store.vector.enabled", True, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.store.vector.extensionPath",
        "search.store.vector.extension_path",
        None,
        PATHS,
        NOT_A_TEXT,
    ),
    Row(
        f"{SEARCH}.store.vector.engine",
        "search.store.vector.engine",
        "auto",
        words("auto", "resident", "sqlite-vec", "numpy"),
        NOT_A_WORD,
    ),
    Row(
        f"{SEARCH}.store.vector.maxResidentMB",
        "search.store.vector.max_resident_mb",
        256,
        {"0": 0, "1024": 1024},
        NOT_WHOLE,
    ),
    Row(
        f"{SEARCH}.chunking.tokens",
        "search.chunking.tokens",
        400,
        {"400": 400, "81": 81, "4096.0": 4096},
        NOT_POSITIVE,
    ),
    Row(
        f"{SEARCH}.chunking.overlap",
        "search.chunking.overlap",
        80,
        {"0": 0, "399": 399},
        NOT_WHOLE,
        {"400": 399, "5000": 399},
    ),
    Row(f"{SEARCH}.sync.onSessionStart", "search.sync.on_session_start", True, FLAG, NOT_A_FLAG),
    Row(f"{SEARCH}.sync.onSearch", "search.sync.on_search", True, FLAG, NOT_A_FLAG),
    Row(f"{SEARCH}.sync.watch", "search.sync.watch", True, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.sync.watchDebounceMs",
        "search.sync.watch_debounce_ms",
        1500,
        {"0": 0, "300": 300},
        WHOLE_MS,
        TIMER,
    ),
    Row(
        f"{SEARCH}.sync.intervalMinutes",
        "search.sync.interval_minutes",
        0,
        {"0": 0, "15": 15},
        WHOLE_MS,
        {"40000": 35_791},
    ),
    Row(
        f"{SEARCH}.sync.searchBudgetMs",
        "search.sync.search_budget_ms",
        100,
        {"0": 0, "250": 250},
        WHOLE_MS,
        TIMER,
    ),
    Row(
        f"{SEARCH}.sync.sessions.deltaBytes",
        "search.sync.sessions.delta_bytes",
        100_000,
        {"0": 0, "5000": 5000},
        NOT_WHOLE_FLOORED,
        {"99.9": 99},
    ),
    Row(
        f"{SEARCH}.sync.sessions.deltaMessages",
        "search.sync.sessions.delta_messages",
        50,
        {"0": 0, "5": 5},
        NOT_WHOLE_FLOORED,
        {"5.5": 5},
    ),
    Row(
        f"{SEARCH}.query.maxResults",
        "search.query.max_results",
        6,
        {"1": 1, "50": 50},
        NOT_POSITIVE,
    ),
    Row(
        f"{SEARCH}.query.minScore",
        "search.query.min_score",
        0.35,
        {"0": 0.0, "1": 1.0, "0.5": 0.5, ".25": 0.25},
        NOT_A_NUMBER,
        {"1.5": 1.0, "-1": 0.0, "35": 1.0},
    ),
    Row(
        f"{SEARCH}.query.embeddingTimeoutMs",
        "search.query.embedding_timeout_ms",
        4000,
        {"0": 0, "800": 800},
        WHOLE_MS,
        TIMER,
    ),
    Row(f"{SEARCH}.query.hybrid.enabled", "search.query.hybrid.enabled", True, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.query.hybrid.vectorWeight",
        "search.query.hybrid.vector_weight",
        0.7,
        {"0.7": 0.7, "0": 0.0, "0.3": 0.5},
        NOT_A_NUMBER,
        {"-1": 0.0, "7": pytest.approx(1 / 1.3)},
    ),
    Row(
        f"{SEARCH}.query.hybrid.textWeight",
        "search.query.hybrid.text_weight",
        0.3,
        {"0.3": 0.3, "0": 0.0, "0.7": 0.5},
        NOT_A_NUMBER,
        {"-1": 0.0, "7": pytest.approx(1 / 1.7)},
    ),
    Row(
        f"{SEARCH}.query.hybrid.candidateMultiplier",
        "search.query.hybrid.candidate_multiplier",
        4,
        {"1": 1, "20": 20},
        tuple(value for value in NOT_POSITIVE_FLOORED if value != "1e308"),
        {"4.7": 4, "21": 20, "1000": 20},
    ),
    Row(
        f"{SEARCH}.query.hybrid.fusion",
        "search.query.hybrid.fusion",
        "weighted",
        words("weighted", "rrf"),
        NOT_A_WORD,
    ),
    Row(f"{SEARCH}.query.decay.enabled", "search.query.decay.enabled", False, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.query.decay.halfLifeDays",
        "search.query.decay.half_life_days",
        30.0,
        {"7": 7.0, "0.5": 0.5},
        (*NOT_A_NUMBER, "0", "-1"),
    ),
    Row(f"{SEARCH}.cache.enabled", "search.cache.enabled", True, FLAG, NOT_A_FLAG),
    Row(
        f"{SEARCH}.cache.maxEntries",
        "search.cache.max_entries",
        None,
        {"1": 1, "50000": 50_000},
        NOT_POSITIVE_FLOORED,
        {"99.5": 99},
    ),
    # agents.defaults.compaction.*
    Row(
        "agents.defaults.compaction.mode",
        "compaction.mode",
        "default",
        words("default", "safeguard"),
        NOT_A_WORD,
    ),
    Row(
        "agents.defaults.compaction.reserveTokensFloor",
        "compaction.reserve_tokens_floor",
        20_000,
        {"0": 0, "30000": 30_000},
        NOT_WHOLE,
    ),
    Row(
        "agents.defaults.compaction.maxHistoryShare",
        "compaction.max_history_share",
        None,
        {"0.1": 0.1, "0.5": 0.5, "0.9": 0.9},
        (*NOT_A_NUMBER, "0", "0.05", "1"),
    ),
    Row(
        "agents.defaults.compaction.memoryFlush.enabled",
        "compaction.memory_flush.enabled",
        True,
        FLAG,
        NOT_A_FLAG,
    ),
    Row(
        "agents.defaults.compaction.memoryFlush.softThresholdTokens",
        "compaction.memory_flush.soft_threshold_tokens",
        4000,
        {"0": 0, "8000": 8000},
        NOT_WHOLE_FLOORED,
        {"4000.5": 4000},
    ),
    Row(
        "agents.defaults.compaction.memoryFlush.prompt",
        "compaction.memory_flush.prompt",
        None,
        {"'Save now.'": "Save now.", "' '": None},
        NOT_A_TEXT,
    ),
    Row(
        "agents.defaults.compaction.memoryFlush.systemPrompt",
        "compaction.memory_flush.system_prompt",
        None,
        words("Be brief."),
        NOT_A_TEXT,
    ),
    # the surroundings
    Row("agents.defaults.workspace", "workspace", "HOME/.openclaw/workspace", PATHS, NOT_A_TEXT),
    Row(
        "agents.defaults.userTimezone",
        "user_timezone",
        None,
        words("Europe/Vienna", "UTC"),
        NOT_A_TEXT,
        {"'Mars/Olympus'": None, "'../../etc/passwd'": None, "'/etc/passwd'": None},
    ),
    Row(
        "plugins.slots.memory",
        "memory_slot",
        None,
        words("memory-core", "none"),
        NOT_A_TEXT,
    ),
]

IDS = [row.path for row in ROWS]


def written(path: str, value: str) -> str:
    """A file with one key, whose value stands alone on the line of its name."""
    *outer, name = path.split(".")
    opening = "".join(f"{part}: {{\n" for part in outer)
    return f"{{\n{opening}{name}: {value}\n{'}' * len(outer)}}}\n"


def line_of(path: str) -> int:
    return path.count(".") + 2


def expected(value: Any, row: Row, machine: Any) -> Any:
    """`null` is the default; capitals at the start of a string stand for a directory."""
    if value is None and row.default is not None:
        value = row.default
    if not isinstance(value, str):
        return value
    places = {
        "HOME": machine.home,
        "CWD": machine.cwd,
        "STATE": machine.state,
        "WORKSPACE": machine.state / "workspace",
    }
    head, slash, rest = value.partition("/")
    return str(places[head] / rest) if slash and head in places else value


def effective(settings: Any, row: Row) -> Any:
    value = attrgetter(row.attribute)(settings)
    return str(value) if isinstance(value, Path) else value


def same(actual: Any, wanted: Any) -> bool:
    wanted = str(wanted) if isinstance(wanted, Path) else wanted
    return actual == wanted and isinstance(actual, bool) == isinstance(wanted, bool)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_default_is_the_documented_one(machine, row):
    settings = machine.load()
    assert same(effective(settings, row), expected(row.default, row, machine))
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("row", "text"),
    [pytest.param(row, text, id=f"{row.path}={text}") for row in ROWS for text in row.valid],
)
def test_an_allowed_value_applies_without_a_warning(machine, row, text):
    settings = machine.load(written(row.path, text))
    assert same(effective(settings, row), expected(row.valid[text], row, machine))
    assert settings.warnings == ()


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_null_means_that_the_key_is_absent(machine, row):
    settings = machine.load(written(row.path, "null"))
    assert same(effective(settings, row), expected(row.default, row, machine))
    assert settings.warnings == ()


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_what_is_not_allowed_is_a_problem_with_file_line_path_found_and_allowed(machine, row):
    assert row.invalid
    for text in row.invalid:
        (problem,) = machine.problems(written(row.path, text))
        assert problem.file == str(machine.config), text
        assert problem.line is not None, text
        assert problem.line >= line_of(row.path), text
        assert problem.path is not None, text
        assert problem.path.startswith(row.path), text
        assert problem.message.startswith("found "), text
        assert ", allowed is " in problem.message, text


@pytest.mark.parametrize(
    ("row", "text"),
    [pytest.param(row, text, id=f"{row.path}={text}") for row in ROWS for text in row.cut],
)
def test_what_is_cut_applies_with_a_warning_that_names_the_line(machine, row, text):
    settings = machine.load(written(row.path, text))
    assert same(effective(settings, row), expected(row.cut[text], row, machine))
    (warning,) = settings.warnings
    assert (warning.path, warning.line) == (row.path, line_of(row.path))
    assert warning.file == str(machine.config)


def test_every_key_that_fills_a_field_is_in_the_table():
    composite = {"search.extra_paths", "search.remote.api_key", "qmd.paths", "qmd.scope", "scope"}
    elsewhere = {"agent_dir"}  # of one agent: see the tests of merging
    tested = {row.attribute for row in ROWS} | composite | elsewhere
    keys = {field_of(section, key) for section in SECTIONS for key in section.keys} - {None}
    assert keys == tested


def test_a_model_that_is_configured_is_not_the_default_one(machine):
    assert machine.load().search.local.model_path_is_default
    text = written(f"{SEARCH}.local.modelPath", f"'{MODEL}'")
    assert not machine.load(text).search.local.model_path_is_default


@pytest.mark.parametrize("provider", ["ollama", "lmstudio", "openai-compatible", "mistral"])
def test_a_provider_of_later_releases_is_refused_with_a_way_out(machine, provider):
    (problem,) = machine.problems(written(f"{SEARCH}.provider", f"'{provider}'"))
    assert 'write "openai" and set remote.baseUrl' in problem.message


def test_the_key_of_the_vendor_is_not_the_name_of_the_provider(machine):
    (problem,) = machine.problems(written(f"{SEARCH}.provider", "'google'"))
    assert 'write "gemini"' in problem.message
