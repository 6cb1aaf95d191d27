"""The keys of memory search: `agents.defaults.memorySearch.*` and `agents.list[].memorySearch.*`.

Later releases moved them to `memory.search.*` and `agents.entries.<id>.memory.search.*`, the first one
had them at the top; all of these places are read, and before them our own entry among the plugins.
"""

from __future__ import annotations

from config.keys.composite import ListOf
from config.keys.credentials import ApiKey, Headers, Unresolved
from config.keys.kinds import MAX_TIMER_MS, Choice, Flag, Real, Text, Whole
from config.keys.records import ExtraPaths
from config.keys.texts import Address, IndexPath, ModelPath, PathText, ProviderId
from config.keys.tree import HOME, Key, Section

_MAX_TIMER_MINUTES = MAX_TIMER_MS // 60_000
_MILLISECONDS = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS)
_COUNT = Whole(minimum=1)
_UNIT_INTERVAL = Real(0, 1, clamps=True)

_PROVIDERS = (
    *("openai", "gemini", "voyage", "mistral", "deepinfra"),
    *("ollama", "lmstudio", "openai-compatible", "local"),
)

_GENERAL = (
    Key("enabled", Flag(), "Switches memory search, and with it both tools, on or off."),
    Key(
        "sources",
        ListOf(Choice(("memory", "sessions"))),
        "What is indexed: the Markdown memory, the session transcripts or both; "
        "sessions counts only with experimental.sessionMemory.",
    ),
    Key(
        "extraPaths",
        ExtraPaths(),
        "More Markdown files or directories to index, relative to the workspace; "
        "the agent's own come behind those of the defaults.",
        merge="concatenate",
    ),
    Key(
        "claudeCode",
        Flag(),
        "Adds what Claude Code of this user remembers: its projects' memory, CLAUDE.md, and its "
        "conversations where sessions are a source.",
    ),
    Key(
        "experimental.sessionMemory",
        Flag(),
        "Allows the source sessions.",
        field="session_memory",
    ),
    Key(
        "rememberAcrossConversations",
        Flag(),
        "Adds the source sessions for private conversations: from groups and channels it is then not "
        "searched, unless sources names it and experimental.sessionMemory allows it.",
    ),
    Key(
        "provider",
        ProviderId(("auto", *_PROVIDERS, "none")),
        "Who computes embeddings; auto takes the first that is set up, none means keywords only, "
        "and so does, with the reason in every answer, an id that cannot be used.",
    ),
    Key(
        "fallback",
        ProviderId((*_PROVIDERS, "none")),
        "Who computes embeddings when the provider fails.",
    ),
    Key(
        "model",
        Text(),
        "Embedding model; without it the provider's own default, which openai-compatible and most "
        "entries of models.providers do not have.",
    ),
    Key(
        "outputDimensionality",
        _COUNT,
        "Length of the vectors, where the model lets one choose.",
    ),
    Key("inputType", Text(), "Sets queryInputType and documentInputType at once.", field=""),
    Key("queryInputType", Text(), "Input type sent with a query, for asymmetric models."),
    Key("documentInputType", Text(), "Input type sent with a document, for asymmetric models."),
)

_PROVIDER_SETTINGS = (
    Key("remote.baseUrl", Address(), "Address of the embeddings API."),
    Key("remote.apiKey", ApiKey(), "Key for the embeddings API."),
    Key(
        "remote.headers",
        Headers(),
        "More HTTP headers; an agent's headers replace those of the defaults altogether.",
    ),
    Key("remote.batch.enabled", Flag(), "Uses the provider's batch API for large backlogs."),
    Key("remote.batch.wait", Flag(), "Waits for batch jobs to complete."),
    Key("remote.batch.concurrency", _COUNT, "Batch jobs at the same time."),
    Key("remote.batch.pollIntervalMs", _MILLISECONDS, "Time between questions after a batch job."),
    Key(
        "remote.batch.timeoutMinutes",
        Whole(minimum=1, unit="minutes", ceiling=_MAX_TIMER_MINUTES),
        "How long to wait for a batch job.",
    ),
    Key("local.modelPath", ModelPath(), "Embedding model for the provider local (GGUF)."),
    Key("local.modelCacheDir", PathText(), "Where downloaded models are kept."),
)

_STORE = (
    Key("store.driver", Choice(("sqlite",)), "Kind of database."),
    Key("store.path", IndexPath(), "The index database; {agentId} stands for the agent."),
    Key("store.vector.enabled", Flag(), "Keeps and searches vectors."),
    Key("store.vector.extensionPath", PathText(), "sqlite-vec library instead of the bundled one."),
    Key(
        "store.vector.engine",
        Choice(("auto", "resident", "sqlite-vec", "numpy")),
        "How vectors are searched; auto takes the fastest that is installed and fits.",
    ),
    Key(
        "store.vector.maxResidentMB",
        Whole(unit="MiB"),
        "Memory that the resident engine may use.",
        field="store.vector.max_resident_mb",
    ),
    Key("chunking.tokens", Whole(minimum=1, unit="tokens"), "Size of a chunk, about."),
    Key(
        "chunking.overlap",
        Whole(unit="tokens"),
        "How much of a chunk the next one repeats; less than chunking.tokens.",
    ),
    Key("cache.enabled", Flag(), "Keeps embeddings, so that no text is embedded twice."),
    Key(
        "cache.maxEntries",
        Whole(minimum=1, floors=True),
        "Embeddings to keep; without it no bound.",
    ),
)

_SYNC = (
    Key("sync.onSessionStart", Flag(), "Looks for changed files when a session starts."),
    Key("sync.onSearch", Flag(), "Looks for changed files before a search answers."),
    Key("sync.watch", Flag(), "Watches the files for changes."),
    Key("sync.watchDebounceMs", _MILLISECONDS, "Quiet time after a change before it is indexed."),
    Key(
        "sync.intervalMinutes",
        Whole(unit="minutes", ceiling=_MAX_TIMER_MINUTES),
        "Time between periodic syncs; 0 for none.",
    ),
    Key(
        "sync.searchBudgetMs",
        _MILLISECONDS,
        "How long a search may spend on indexing changes before it answers.",
    ),
    Key(
        "sync.sessions.deltaBytes",
        Whole(unit="bytes", floors=True),
        "New bytes in a transcript that make it worth indexing again.",
    ),
    Key(
        "sync.sessions.deltaMessages",
        Whole(unit="messages", floors=True),
        "New messages in a transcript that make it worth indexing again.",
    ),
)

_QUERY = (
    Key("query.maxResults", _COUNT, "Results of a search that does not ask for a number."),
    Key("query.minScore", _UNIT_INTERVAL, "Results with a lower score are left out."),
    Key(
        "query.embeddingTimeoutMs",
        _MILLISECONDS,
        "How long a search waits for the embedding of its query before it uses keywords alone.",
    ),
    Key("query.hybrid.enabled", Flag(), "Joins keyword search and vector search."),
    Key(
        "query.hybrid.vectorWeight",
        _UNIT_INTERVAL,
        "Share of the vector score; both weights are divided by their sum.",
    ),
    Key(
        "query.hybrid.textWeight",
        _UNIT_INTERVAL,
        "Share of the keyword score; both weights are divided by their sum.",
    ),
    Key(
        "query.hybrid.candidateMultiplier",
        Whole(minimum=1, floors=True, ceiling=20),
        "Candidates per wanted result that each lane contributes.",
    ),
    Key(
        "query.hybrid.fusion",
        Choice(("weighted", "rrf")),
        "How the lanes are joined: weighted scores, or reciprocal ranks.",
    ),
    Key(
        "query.decay.enabled",
        Flag(),
        "Lets dated notes lose score with age.",
        aliases=("query.hybrid.temporalDecay.enabled",),
    ),
    Key(
        "query.decay.halfLifeDays",
        Real(0.01, unit="days"),
        "Age at which half of the score is left.",
        aliases=("query.hybrid.temporalDecay.halfLifeDays",),
    ),
)

_RETIRED = (
    ("multimodal", "only Markdown is indexed: pictures and sound would need other embeddings"),
    ("store.fts", "one tokenizer serves every script"),
    ("local.contextSize", "the size follows from the model and the chunks"),
    ("remote.nonBatchConcurrency", "concurrency adapts to the provider by itself"),
    ("sync.embeddingBatchTimeoutSeconds", "every request has its own time limit"),
    ("sync.sessions.postCompactionForce", "a compacted transcript is noticed by itself"),
    ("query.hybrid.mmr", "overlapping results are merged instead"),
    ("qmd", "QMD collections are named in memory.qmd.paths"),
)

_UNREADABLE = {
    # What was meant to be off must not be on by a slip, and notes must not go to another provider or
    # address than the one that was meant.
    "enabled": (False, "memory is off"),
    "provider": ("none", "only keywords are searched"),
    "remote.apiKey": (
        Unresolved("memorySearch.remote.apiKey cannot be read"),
        "no other key is used in its place",
    ),
    "remote.baseUrl": (
        Unresolved("memorySearch.remote.baseUrl cannot be read"),
        "no key is sent to any other address",
    ),
}

SEARCH = Section(
    "memorySearch",
    (
        f"{HOME}.search",
        "agents.defaults.memorySearch",
        "memory.search",
        "memorySearch",
        f"{HOME}.agents.*.search",
        "agents.list.[].memorySearch",
        "agents.entries.*.memory.search",
        "agents.list.[].memory.search",
    ),
    "search",
    (*_GENERAL, *_PROVIDER_SETTINGS, *_STORE, *_SYNC, *_QUERY),
    retired=_RETIRED,
    unreadable=_UNREADABLE,
)
