"""Every key that this program reads, defined once: its places, kind and meaning; and why others are retired."""

from __future__ import annotations

import msgspec

from config.keys.kinds import (
    MAX_TIMER_MS,
    ApiKey,
    ByteSize,
    CommandLine,
    Duration,
    Flag,
    FreeText,
    Headers,
    IndexPath,
    ModelPath,
    Name,
    OneOf,
    PathText,
    ProviderId,
    Real,
    TimeZoneName,
    Unresolved,
    WebAddress,
    Whole,
)
from config.keys.records import ExtraPaths, ListOf, QmdPaths, Scope
from config.keys.tree import OWN_ENTRY, Key, Section
from config.vendors import VENDORS

_MILLISECONDS = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS)
_TIMEOUT = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS, zero="default")
_MAX_RETENTION_DAYS = 36_500

_MEMORY_GENERAL = (
    Key("backend", OneOf(("builtin", "qmd")), "Who searches: the builtin index or QMD."),
    Key(
        "citations",
        OneOf(("auto", "on", "off")),
        "Whether snippets name their source; auto does so in direct chats.",
    ),
    Key("scope", Scope(), "Which sessions may search the builtin index; without it all may."),
    Key(
        "append.enabled", Flag(), "Offers the tool that appends to the daily log.", "append_enabled"
    ),
)

_QMD = (
    Key("qmd.command", CommandLine(), "The QMD program."),
    Key(
        "qmd.searchMode",
        OneOf(("query", "search", "vsearch")),
        "QMD's hybrid search with reranking, its keyword search or its vector search.",
    ),
    Key(
        "qmd.includeDefaultMemory",
        Flag(),
        "Gives MEMORY.md, memory.md, USER.md and memory/ to QMD.",
    ),
    Key("qmd.paths", QmdPaths(), "More directories for QMD, each as a collection."),
    Key("qmd.sessions.enabled", Flag(), "Exports session transcripts for QMD."),
    Key(
        "qmd.sessions.exportDir",
        PathText(base="workspace"),
        "Where the exported transcripts are written.",
    ),
    Key(
        "qmd.sessions.retentionDays",
        Whole(unit="days", floors=True, ceiling=_MAX_RETENTION_DAYS, zero="none"),
        "Transcripts older than this are not exported; 0 for no limit.",
    ),
    Key(
        "qmd.update.interval",
        Duration(),
        "Time between updates; 0 for no timer.",
        "qmd.update.interval_ms",
    ),
    Key("qmd.update.debounceMs", _MILLISECONDS, "Updates are at least this far apart."),
    Key("qmd.update.onBoot", Flag(), "Updates once at the start."),
    Key("qmd.update.waitForBootSync", Flag(), "Lets searches wait for the update at the start."),
    Key(
        "qmd.update.embedInterval",
        Duration(),
        "Time between embedding runs; 0 for no periodic ones.",
        "qmd.update.embed_interval_ms",
    ),
    Key("qmd.update.commandTimeoutMs", _TIMEOUT, "Time limit for collection commands."),
    Key("qmd.update.updateTimeoutMs", _TIMEOUT, "Time limit for an update."),
    Key("qmd.update.embedTimeoutMs", _TIMEOUT, "Time limit for an embedding run."),
    Key("qmd.limits.maxResults", Whole(minimum=1, floors=True), "Results of a search at most."),
    Key(
        "qmd.limits.maxSnippetChars",
        Whole(minimum=1, unit="characters"),
        "Length of one snippet at most.",
    ),
    Key(
        "qmd.limits.maxInjectedChars",
        Whole(minimum=1, unit="characters"),
        "Length of all snippets of an answer at most.",
    ),
    Key("qmd.limits.timeoutMs", _TIMEOUT, "Time limit for a search."),
    Key("qmd.scope", Scope(), "Which sessions may search with QMD."),
)

_MEMORY_RETIRED = (
    ("qmd.mode", "QMD is always kept running"),
    ("qmd.mcporter", "the gateway talks to QMD directly"),
    ("qmd.rerank", "searchMode decides whether results are reranked"),
    ("qmd.searchTool", "the tool follows from searchMode"),
    ("qmd.update.startup", "onBoot decides whether an update runs at the start"),
    ("qmd.update.startupDelayMs", "onBoot decides whether an update runs at the start"),
)

MEMORY = Section(
    "memory",
    (OWN_ENTRY, "memory"),
    "",
    (*_MEMORY_GENERAL, *_QMD),
    retired=_MEMORY_RETIRED,
    # The host's own memory goes on dreaming while another plugin has its slot, by that one's settings.
    foreign=("dreaming",),
)


_MAX_TIMER_MINUTES = MAX_TIMER_MS // 60_000
_COUNT = Whole(minimum=1)
_UNIT_INTERVAL = Real(0, 1, clamps=True)

_PROVIDERS = (*VENDORS, "local")

_SEARCH_GENERAL = (
    Key("enabled", Flag(), "Switches memory search, and with it both tools, on or off."),
    Key(
        "sources",
        ListOf(OneOf(("memory", "sessions"))),
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
        FreeText(),
        "Embedding model; without it the provider's own default, which openai-compatible and most "
        "entries of models.providers do not have.",
    ),
    Key(
        "outputDimensionality",
        _COUNT,
        "Length of the vectors, where the model lets one choose.",
    ),
    Key("inputType", FreeText(), "Sets queryInputType and documentInputType at once.", field=""),
    Key("queryInputType", FreeText(), "Input type sent with a query, for asymmetric models."),
    Key("documentInputType", FreeText(), "Input type sent with a document, for asymmetric models."),
)

_PROVIDER_SETTINGS = (
    Key("remote.baseUrl", WebAddress(), "Address of the embeddings API."),
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
    Key("local.modelPath", ModelPath(), "Embedding model for the provider local (ONNX or GGUF)."),
    Key("local.modelCacheDir", PathText(), "Where downloaded models are kept."),
)

_STORE = (
    Key("store.driver", OneOf(("sqlite", "postgres")), "Kind of database."),
    Key("store.path", IndexPath(), "The index database; {agentId} stands for the agent."),
    Key("store.url", ApiKey(), "Address of the PostgreSQL database, as libpq reads it."),
    Key("store.passwordFile", PathText(), "File that holds nothing but the database's password."),
    # PostgreSQL cuts longer names without a word, and two schemas would become one.
    Key("store.schema", Name(63), "PostgreSQL schema that holds the tables."),
    Key(
        "store.tenant",
        Name(255),
        "Whose agents these are, where several owners share a database.",
    ),
    Key(
        "store.view",
        Name(255),
        "Whose sight of the files this is, where several hosts share one index; without it this host's.",
    ),
    Key("store.pool.max", _COUNT, "Connections to PostgreSQL that one process opens at most."),
    Key(
        "store.statementTimeoutMs",
        _MILLISECONDS,
        "How long PostgreSQL may work on one statement; 0 for no limit.",
    ),
    Key("store.vector.enabled", Flag(), "Keeps and searches vectors."),
    Key("store.vector.extensionPath", PathText(), "sqlite-vec library instead of the bundled one."),
    Key(
        "store.vector.engine",
        OneOf(("auto", "resident", "sqlite-vec", "numpy")),
        "How vectors are searched; auto takes the fastest that is installed and fits.",
    ),
    Key(
        "store.vector.maxResidentMB",
        Whole(unit="MiB"),
        "Memory that the resident engine may use.",
        field="store.vector.max_resident_mb",
    ),
    Key(
        "store.vector.hnswFrom",
        Whole(unit="vectors"),
        "Vectors from which on PostgreSQL searches an approximate index, once `store migrate` made it.",
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
        OneOf(("weighted", "rrf")),
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

_SEARCH_RETIRED = (
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
    "store.url": (
        Unresolved("memorySearch.store.url cannot be read"),
        "no other database is used in its place",
    ),
}

SEARCH = Section(
    "memorySearch",
    (
        f"{OWN_ENTRY}.search",
        "agents.defaults.memorySearch",
        "memory.search",
        "memorySearch",
        f"{OWN_ENTRY}.agents.*.search",
        "agents.list.[].memorySearch",
        "agents.entries.*.memory.search",
        "agents.list.[].memory.search",
    ),
    "search",
    (*_SEARCH_GENERAL, *_PROVIDER_SETTINGS, *_STORE, *_SYNC, *_QUERY),
    retired=_SEARCH_RETIRED,
    unreadable=_UNREADABLE,
)


AGENT = Section(
    "",
    ("agents.list.[]", "agents.entries.*"),
    "",
    (
        Key("default", Flag(), "Marks the agent that is meant when none is named.", ""),
        Key("workspace", PathText(), "The agent's workspace."),
        Key("agentDir", PathText(), "The agent's own directory, with its credentials."),
    ),
    unknown="ignore",
)
AGENT_LIST = Section(
    "agents.list[]",
    ("agents.list.[]",),
    "",
    (Key("id", FreeText(), "Name of the agent.", "", required=True),),
    unknown="ignore",
)
AGENT_DEFAULTS = Section(
    "agents.defaults",
    ("agents.defaults",),
    "",
    (
        Key("workspace", PathText(), "Workspace of the default agent.", ""),
        Key("userTimezone", TimeZoneName(), "Time zone of the user, for dates of notes."),
    ),
    unknown="ignore",
)
COMPACTION = Section(
    "compaction",
    (f"{OWN_ENTRY}.compaction", "agents.defaults.compaction"),
    "compaction",
    (
        Key("mode", OneOf(("default", "safeguard")), "How the chat gateway compacts."),
        Key("reserveTokensFloor", Whole(unit="tokens"), "Tokens kept free of history, at least."),
        Key(
            "maxHistoryShare",
            Real(0.1, 0.9),
            "Share of the context window that history may take.",
        ),
        Key(
            "maxActiveTranscriptBytes",
            ByteSize(),
            "Size of a transcript that makes the chat gateway compact; a flush is due before. 0: none.",
        ),
        Key(
            "postIndexSync",
            OneOf(("off", "async", "await")),
            "Whether a compaction makes the index look at the transcripts again: later or at once.",
        ),
    ),
    unknown="ignore",
    retired=(
        ("enabled", "a context that overflows is compacted all the same, so the flush stays due"),
        ("keepRecentTokens", "how much a compaction leaves is the chat gateway's business"),
        ("notifyUser", "what its users are told is the chat gateway's business"),
    ),
    # Keys of the chat gateway that resemble one above.
    foreign=("model", "reserveTokens"),
)
MEMORY_FLUSH = Section(
    "compaction.memoryFlush",
    (f"{OWN_ENTRY}.compaction.memoryFlush", "agents.defaults.compaction.memoryFlush"),
    "compaction.memory_flush",
    (
        Key("enabled", Flag(), "Lets the agent write down memories before compaction."),
        Key(
            "softThresholdTokens",
            Whole(unit="tokens", floors=True),
            "How long before compaction the flush comes.",
        ),
        Key("prompt", FreeText(), "What the flush says to the agent instead of the built-in text."),
        Key("systemPrompt", FreeText(), "System prompt of the flush instead of the built-in text."),
        Key("model", FreeText(), "Model for the flush; told the chat gateway, which runs it."),
        Key(
            "forceFlushTranscriptBytes",
            ByteSize(),
            "Size of a transcript from which on a flush is due whatever its tokens. 0: none.",
        ),
    ),
)
PLUGINS = Section(
    "plugins.slots",
    ("plugins.slots",),
    "",
    (
        Key(
            "memory",
            FreeText(),
            "Plugin in charge of the chat gateway's own memory, or none; whether it counts here: "
            "see the page about migration.",
            "memory_slot",
        ),
    ),
    unknown="ignore",
)
MODELS = Section(
    "models.providers",
    ("models.providers",),
    "",
    (
        Key("*.api", FreeText(), "The wire of the provider; OpenAI's serves embeddings here.", ""),
        Key("*.baseUrl", WebAddress(checked=False), "Address of the provider's API.", ""),
        Key("*.apiKey", ApiKey(), "Key for the provider's API.", ""),
        Key("*.headers", Headers(), "More HTTP headers for the provider.", ""),
    ),
    unknown="ignore",
    unreadable={
        "*.apiKey": (Unresolved("its apiKey cannot be read"), "no other key is used in its place"),
        "*.baseUrl": (Unresolved("its baseUrl cannot be read"), "its key is not sent anywhere"),
    },
)
AUTH = Section(
    "auth",
    ("auth",),
    "",
    (
        Key(
            "profiles.*.provider", FreeText(), "Provider of a profile; its secret is elsewhere.", ""
        ),
        Key("profiles.*.mode", FreeText(), "Kind of credential of a profile.", ""),
        Key("order.*", ListOf(FreeText()), "Profiles of a provider, the best first.", ""),
    ),
    unknown="ignore",
)

SECTIONS: tuple[Section, ...] = (
    SEARCH,
    MEMORY,
    COMPACTION,
    MEMORY_FLUSH,
    AGENT_LIST,
    AGENT,
    AGENT_DEFAULTS,
    PLUGINS,
    MODELS,
    AUTH,
)

_PLACES_IN_OWN_FILE = (
    (SEARCH, ""),
    (MEMORY, ""),
    (COMPACTION, "compaction"),
    (MEMORY_FLUSH, "compaction.memoryFlush"),
    (AGENT_DEFAULTS, "agents.defaults"),
    (MODELS, "models.providers"),
    (AUTH, "auth"),
)
OWN_FILE_SECTIONS: tuple[Section, ...] = tuple(
    msgspec.structs.replace(
        section,
        places=(place,),
        unknown="refuse" if section not in (MODELS, AUTH) else "ignore",
        retired=tuple(one for one in section.retired if one[0] != "qmd"),  # here it is MEMORY's
        foreign=(*section.foreign, *(("notes", "setup", "env") if section is SEARCH else ())),
    )
    for section, place in _PLACES_IN_OWN_FILE
)
"""The same keys as they stand in our own file, each by its short name; a slip there is an error."""
