"""The settings of one agent, each declared once: its key, kind, meaning, type and default. mypy compares them.

The key follows from the place: `SyncSettings.watch_debounce_ms` in `search` is `sync.watchDebounceMs`.
`config.sections` says where each section may stand in a file. A reload makes a new object. Units are in the
names (`_ms`, `_s`, `_tokens`, `_chars`, `_bytes`) or in the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

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
    WebAddress,
    Whole,
)
from config.keys.tree import (
    ChatType,
    ExtraPath,
    ExtraPaths,
    ListOf,
    QmdPath,
    QmdPaths,
    Scope,
    ScopeMatch,
    ScopePolicy,
    ScopeRule,
    SettingsGroup,
    group,
    setting,
)
from config.source.environment import Secret
from config.source.located import ConfigWarning, SettingOrigin
from config.vendors import VENDORS

__all__ = [
    "AuthProfileRef", "AuthSettings", "BatchSettings", "CacheSettings", "ChatType",
    "ChunkingSettings", "CitationsMode", "CompactionSettings", "ConfigWarning", "DecaySettings",
    "ExtraPath", "HybridSettings", "LocalSettings", "MemoryFlushSettings", "MemorySearchSettings",
    "ModelProviderSettings", "PoolSettings", "QmdLimits", "QmdPath", "QmdSessionsSettings",
    "QmdSettings", "QmdUpdateSettings", "QuerySettings", "RemoteSettings", "ScopeMatch",
    "ScopePolicy", "ScopeRule", "Secret", "SessionSyncSettings", "SettingOrigin", "Settings",
    "Source", "StartedAs", "StoreSettings", "SyncSettings", "VectorStoreSettings",
]  # fmt: skip

CitationsMode = Literal["auto", "on", "off"]
Source = Literal["memory", "sessions"]
StartedAs = Literal["sidecar", "service", "plugin", "mcp", "command"]
"""The starter of this process: a chat gateway of February over the pipe, a service manager, our plugin, an
MCP client, or a person at the command line."""

_MAX_TIMER_MINUTES: Final = MAX_TIMER_MS // 60_000
_MAX_RETENTION_DAYS: Final = 36_500
_MILLISECONDS: Final = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS)
_TIMEOUT: Final = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS, zero="default")
_COUNT: Final = Whole(minimum=1)
_UNIT_INTERVAL: Final = Real(0, 1, clamps=True)
_PROVIDERS: Final = (*VENDORS, "local")


class BatchSettings(SettingsGroup):
    enabled: bool = setting(
        Flag(), "Uses the provider's batch API for large backlogs.", default=True
    )
    wait: bool = setting(Flag(), "Waits for batch jobs to complete.", default=True)
    concurrency: int = setting(_COUNT, "Batch jobs at the same time.", default=2)
    poll_interval_ms: int = setting(
        _MILLISECONDS, "Time between checks of a batch job.", default=2000
    )
    timeout_minutes: int = setting(
        Whole(minimum=1, unit="minutes", ceiling=_MAX_TIMER_MINUTES),
        "How long to wait for a batch job.",
        default=60,
    )


class RemoteSettings(SettingsGroup):
    base_url: str | None = setting(WebAddress(), "Address of the embeddings API.", default=None)
    api_key: Secret | None = setting(ApiKey(), "Key for the embeddings API.", default=None)
    api_key_problem: str | None = None
    """The reason why the configured key could not be read; no other key may then replace it."""
    headers: Mapping[str, str] = setting(
        Headers(),
        "More HTTP headers; an agent's headers replace those of the defaults altogether.",
        default={},
    )
    batch: BatchSettings = group(BatchSettings, default=BatchSettings())


class LocalSettings(SettingsGroup):
    model_path: str | None = setting(
        ModelPath(), "Embedding model for the provider local (ONNX or GGUF).", default=None
    )
    """None: the suggested one, or the one that was the default of the installed engine."""
    model_cache_dir: Path | None = setting(
        PathText(), "Where downloaded models are kept.", default=None
    )
    """None: `memory-gateway/models` in the user's cache."""


class VectorStoreSettings(SettingsGroup):
    enabled: bool = setting(Flag(), "Keeps and searches vectors.", default=True)
    extension_path: Path | None = setting(
        PathText(), "sqlite-vec library instead of the bundled one.", default=None
    )
    engine: Literal["auto", "resident", "sqlite-vec", "numpy"] = setting(
        OneOf(("auto", "resident", "sqlite-vec", "numpy")),
        "How vectors are searched; auto takes the fastest that is installed and fits.",
        default="auto",
    )
    max_resident_mb: int = setting(
        Whole(unit="MiB"),
        "Memory that the resident engine may use.",
        default=256,
        path="maxResidentMB",
    )
    hnsw_from: int = setting(
        Whole(unit="vectors"),
        "Number of vectors from which PostgreSQL searches an approximate index, once `store migrate` has made it.",
        default=20_000,
    )


class PoolSettings(SettingsGroup):
    max: int = setting(
        _COUNT, "Connections to PostgreSQL that one process opens at most.", default=4
    )


class StoreSettings(SettingsGroup):
    driver: Literal["sqlite", "postgres"] = setting(
        OneOf(("sqlite", "postgres")), "Kind of database.", default="sqlite"
    )
    path: Path = setting(IndexPath(), "The index database; {agentId} stands for the agent.")
    former_path: Path | None = None
    """The place where earlier releases had the index of the default `path`; None for a path that was set."""
    url: Secret | None = setting(
        ApiKey(), "Address of the PostgreSQL database, as libpq reads it.", default=None
    )
    url_problem: str | None = None
    """The reason why the configured address could not be read."""
    password_file: Path | None = setting(
        PathText(), "File that holds nothing but the database's password.", default=None
    )
    # PostgreSQL silently shortens longer names, and two schemas would become one.
    schema: str = setting(
        Name(63), "PostgreSQL schema that holds the tables.", default="memory_gateway"
    )
    tenant: str = setting(
        Name(255),
        "Owner of these agents, where several owners share a database.",
        default="default",
    )
    view: str | None = setting(
        Name(255),
        "Name of this view of the files, where several hosts share one index; without it the host's name.",
        default=None,
    )
    pool: PoolSettings = group(PoolSettings, default=PoolSettings())
    statement_timeout_ms: int = setting(
        _MILLISECONDS,
        "How long PostgreSQL may work on one statement; 0 for no limit.",
        default=15_000,
    )
    vector: VectorStoreSettings = group(VectorStoreSettings, default=VectorStoreSettings())


class ChunkingSettings(SettingsGroup):
    tokens: int = setting(Whole(minimum=1, unit="tokens"), "Size of a chunk, about.", default=400)
    overlap: int = setting(
        Whole(unit="tokens"),
        "How much of a chunk the next one repeats; less than chunking.tokens.",
        default=80,
    )


class CacheSettings(SettingsGroup):
    enabled: bool = setting(
        Flag(), "Keeps embeddings, so that no text is embedded twice.", default=True
    )
    max_entries: int | None = setting(
        Whole(minimum=1, floors=True), "Embeddings to keep; without it no bound.", default=None
    )


class SessionSyncSettings(SettingsGroup):
    delta_bytes: int = setting(
        Whole(unit="bytes", floors=True),
        "New bytes in a transcript that make it worth indexing again.",
        default=100_000,
    )
    delta_messages: int = setting(
        Whole(unit="messages", floors=True),
        "New messages in a transcript that make it worth indexing again.",
        default=50,
    )


class SyncSettings(SettingsGroup):
    on_session_start: bool = setting(
        Flag(), "Looks for changed files when a session starts.", default=True
    )
    on_search: bool = setting(
        Flag(), "Looks for changed files before a search answers.", default=True
    )
    watch: bool = setting(Flag(), "Watches the files for changes.", default=True)
    watch_debounce_ms: int = setting(
        _MILLISECONDS, "Quiet time after a change before it is indexed.", default=1500
    )
    interval_minutes: int = setting(
        Whole(unit="minutes", ceiling=_MAX_TIMER_MINUTES),
        "Time between periodic syncs; 0 for none.",
        default=0,
    )
    search_budget_ms: int = setting(
        _MILLISECONDS,
        "How long a search may spend on indexing changes before it answers.",
        default=100,
    )
    sessions: SessionSyncSettings = group(SessionSyncSettings, default=SessionSyncSettings())


class DecaySettings(SettingsGroup):
    enabled: bool = setting(
        Flag(),
        "Lets dated notes lose score with age.",
        default=False,
        aliases=("query.hybrid.temporalDecay.enabled",),
    )
    half_life_days: float = setting(
        Real(0.01, unit="days"),
        "Age at which half of the score is left.",
        default=30.0,
        aliases=("query.hybrid.temporalDecay.halfLifeDays",),
    )


class HybridSettings(SettingsGroup):
    enabled: bool = setting(Flag(), "Joins keyword search and vector search.", default=True)
    vector_weight: float = setting(
        _UNIT_INTERVAL,
        "Share of the vector score; both weights are divided by their sum.",
        default=0.7,
    )
    text_weight: float = setting(
        _UNIT_INTERVAL,
        "Share of the keyword score; both weights are divided by their sum.",
        default=0.3,
    )
    candidate_multiplier: int = setting(
        Whole(minimum=1, floors=True, ceiling=20),
        "Candidates that each lane contributes, for each of query.maxResults: never under 50 "
        "(by words alone 100), nor over 200.",
        default=4,
    )
    fusion: Literal["weighted", "rrf"] = setting(
        OneOf(("weighted", "rrf")),
        "How the lanes are joined: weighted scores, or reciprocal ranks.",
        default="weighted",
    )


class QuerySettings(SettingsGroup):
    max_results: int = setting(
        _COUNT, "Results of a search that does not ask for a number.", default=6
    )
    min_score: float = setting(
        _UNIT_INTERVAL, "Results with a lower score are left out.", default=0.35
    )
    embedding_timeout_ms: int = setting(
        _MILLISECONDS,
        "How long a search waits for the embedding of its query before it uses keywords alone.",
        default=4000,
    )
    hybrid: HybridSettings = group(HybridSettings, default=HybridSettings())
    decay: DecaySettings = group(DecaySettings, default=DecaySettings())


class MemorySearchSettings(SettingsGroup):
    enabled: bool = setting(
        Flag(), "Switches memory search, and with it both tools, on or off.", default=True
    )
    sources: tuple[Source, ...] = setting(
        ListOf(OneOf(("memory", "sessions"))),
        "What is indexed: the Markdown memory, the session transcripts or both; "
        "sessions counts only with experimental.sessionMemory.",
        default=("memory",),
    )
    extra_paths: tuple[ExtraPath, ...] = setting(
        ExtraPaths(),
        "More Markdown files or directories to index, relative to the workspace; "
        "the agent's own come after those of the defaults.",
        default=(),
        merge="concatenate",
    )
    claude_code: bool = setting(
        Flag(),
        "Adds what Claude Code of this user remembers: its projects' memory, CLAUDE.md, and its "
        "conversations where sessions are a source.",
        default=False,
    )
    session_memory: bool = setting(
        Flag(),
        "Allows the source sessions.",
        default=False,
        path="experimental.sessionMemory",
    )
    remember_across_conversations: bool = setting(
        Flag(),
        "Adds the source sessions for private conversations: from groups and channels it is then not "
        "searched, unless sources names it and experimental.sessionMemory allows it.",
        default=False,
    )
    sessions_in_private_only: bool = False
    """Transcripts are indexed only because of `remember_across_conversations`."""
    provider: str = setting(
        ProviderId(("auto", *_PROVIDERS, "none")),
        "Who computes embeddings; auto takes the first that is set up, none means keywords only, "
        "and so does, with the reason in every answer, an id that cannot be used.",
        default="auto",
    )
    fallback: str = setting(
        ProviderId((*_PROVIDERS, "none")),
        "Who computes embeddings when the provider fails.",
        default="none",
    )
    """The same ids as for `provider`, except "auto"."""
    model: str | None = setting(
        FreeText(),
        "Embedding model; without it the provider's own default, which openai-compatible and most "
        "entries of models.providers do not have.",
        default=None,
    )
    output_dimensionality: int | None = setting(
        _COUNT, "Length of the vectors, where the model lets one choose.", default=None
    )
    query_input_type: str | None = setting(
        FreeText(), "Input type sent with a query, for asymmetric models.", default=None
    )
    document_input_type: str | None = setting(
        FreeText(), "Input type sent with a document, for asymmetric models.", default=None
    )
    remote: RemoteSettings = group(RemoteSettings, default=RemoteSettings())
    local: LocalSettings = group(LocalSettings, default=LocalSettings())
    store: StoreSettings = group(StoreSettings)
    chunking: ChunkingSettings = group(ChunkingSettings, default=ChunkingSettings())
    cache: CacheSettings = group(CacheSettings, default=CacheSettings())
    sync: SyncSettings = group(SyncSettings, default=SyncSettings())
    query: QuerySettings = group(QuerySettings, default=QuerySettings())


class QmdSessionsSettings(SettingsGroup):
    enabled: bool = setting(Flag(), "Exports session transcripts for QMD.", default=False)
    export_dir: Path = setting(
        PathText(base="workspace"), "Where the exported transcripts are written."
    )
    retention_days: int | None = setting(
        Whole(unit="days", floors=True, ceiling=_MAX_RETENTION_DAYS, zero="none"),
        "Transcripts older than this are not exported; 0 for no limit.",
        default=None,
    )


class QmdUpdateSettings(SettingsGroup):
    interval_ms: int = setting(
        Duration(), "Time between updates; 0 for no timer.", default=300_000, path="interval"
    )
    debounce_ms: int = setting(
        _MILLISECONDS, "Updates are at least this far apart.", default=15_000
    )
    on_boot: bool = setting(Flag(), "Updates once at the start.", default=True)
    wait_for_boot_sync: bool = setting(
        Flag(), "Lets searches wait for the update at the start.", default=False
    )
    embed_interval_ms: int = setting(
        Duration(),
        "Time between embedding runs; 0 for no periodic ones.",
        default=3_600_000,
        path="embedInterval",
    )
    command_timeout_ms: int = setting(
        _TIMEOUT, "Time limit for collection commands.", default=30_000
    )
    update_timeout_ms: int = setting(_TIMEOUT, "Time limit for an update.", default=120_000)
    embed_timeout_ms: int = setting(_TIMEOUT, "Time limit for an embedding run.", default=120_000)


class QmdLimits(SettingsGroup):
    max_results: int = setting(
        Whole(minimum=1, floors=True), "Results of a search at most.", default=6
    )
    max_snippet_chars: int = setting(
        Whole(minimum=1, unit="characters"), "Length of one snippet at most.", default=700
    )
    max_injected_chars: int = setting(
        Whole(minimum=1, unit="characters"),
        "Length of all snippets of an answer at most.",
        default=4000,
    )
    timeout_ms: int = setting(_TIMEOUT, "Time limit for a search.", default=4000)


class QmdSettings(SettingsGroup):
    command: str = setting(CommandLine(), "The QMD program.", default="qmd")
    search_mode: Literal["query", "search", "vsearch"] = setting(
        OneOf(("query", "search", "vsearch")),
        "QMD's hybrid search with reranking, its keyword search or its vector search.",
        default="query",
    )
    include_default_memory: bool = setting(
        Flag(), "Gives MEMORY.md, memory.md, USER.md and memory/ to QMD.", default=True
    )
    paths: tuple[QmdPath, ...] = setting(
        QmdPaths(), "More directories for QMD, each as a collection.", default=()
    )
    sessions: QmdSessionsSettings = group(QmdSessionsSettings)
    update: QmdUpdateSettings = group(QmdUpdateSettings, default=QmdUpdateSettings())
    limits: QmdLimits = group(QmdLimits, default=QmdLimits())
    scope: ScopePolicy = setting(
        Scope(),
        "Which sessions may search with QMD.",
        default=ScopePolicy(
            default="deny",
            rules=(ScopeRule(action="allow", match=ScopeMatch(chat_type="direct")),),
        ),
    )


class MemoryFlushSettings(SettingsGroup):
    enabled: bool = setting(
        Flag(), "Lets the agent write down memories before compaction.", default=True
    )
    soft_threshold_tokens: int = setting(
        Whole(unit="tokens", floors=True),
        "Tokens before compaction at which the flush comes.",
        default=4000,
    )
    prompt: str | None = setting(
        FreeText(), "What the flush says to the agent instead of the built-in text.", default=None
    )
    system_prompt: str | None = setting(
        FreeText(), "System prompt of the flush instead of the built-in text.", default=None
    )
    model: str | None = setting(
        FreeText(), "Model for the flush, which the chat gateway runs.", default=None
    )
    """None: the session's own."""
    force_flush_transcript_bytes: int = setting(
        ByteSize(),
        "Size of a transcript from which a flush is due, whatever its tokens. 0: none.",
        default=0,
    )


class CompactionSettings(SettingsGroup):
    mode: Literal["default", "safeguard"] = setting(
        OneOf(("default", "safeguard")), "How the chat gateway compacts.", default="default"
    )
    reserve_tokens_floor: int = setting(
        Whole(unit="tokens"), "Tokens kept free of history, at least.", default=20_000
    )
    max_history_share: float | None = setting(
        Real(0.1, 0.9),
        "Share of the context window that history may take, for the chat gateway; it has no effect here.",
        default=None,
    )
    max_active_transcript_bytes: int = setting(
        ByteSize(),
        "Size of a transcript that makes the chat gateway compact; a flush is due before that. 0: none.",
        default=0,
    )
    post_index_sync: Literal["off", "async", "await"] = setting(
        OneOf(("off", "async", "await")),
        "Whether a compaction makes the index look at the transcripts again: later or at once.",
        default="async",
    )
    memory_flush: MemoryFlushSettings = group(
        MemoryFlushSettings,
        default=MemoryFlushSettings(),
        path="",
        section="compaction.memoryFlush",
    )


class ModelProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`models.providers.<name>`, as far as embeddings need it."""

    api: str | None = None
    """The wire of its models; None: not given."""
    base_url: str | None = None
    api_key: Secret | None = None
    api_key_problem: str | None = None
    """The reason why the configured key could not be read, as in `RemoteSettings`."""
    base_url_problem: str | None = None
    """The reason why the configured address could not be read; nothing may be sent to another in its place."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class AuthProfileRef(msgspec.Struct, frozen=True, kw_only=True):
    """`auth.profiles.<id>` of the configuration file: a profile, without its secret."""

    provider: str
    mode: str | None = None


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    order: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Provider name to profile ids, most preferred first."""
    profiles: Mapping[str, AuthProfileRef] = msgspec.field(default_factory=dict)


class Settings(SettingsGroup):
    """Everything that the upper floors may know about the configuration of one agent."""

    agent_id: str
    search: MemorySearchSettings = group(MemorySearchSettings, path="", section="memorySearch")
    backend: Literal["builtin", "qmd"] = setting(
        OneOf(("builtin", "qmd")),
        "Who searches: the builtin index or QMD.",
        default="builtin",
        section="memory",
    )
    citations: CitationsMode = setting(
        OneOf(("auto", "on", "off")),
        "Whether snippets name their source; auto does so in direct chats.",
        default="auto",
        section="memory",
    )
    scope: ScopePolicy | None = setting(
        Scope(),
        "Which sessions may search the builtin index; without it all may.",
        default=None,
        section="memory",
    )
    append_enabled: bool = setting(
        Flag(),
        "Offers the tool that appends to the daily log.",
        default=False,
        path="append.enabled",
        section="memory",
    )
    write_granted: bool = False
    """True if the command line allowed appending, for the one client that is served."""
    qmd: QmdSettings = group(QmdSettings, section="memory")
    compaction: CompactionSettings = group(
        CompactionSettings, default=CompactionSettings(), path="", section="compaction"
    )
    workspace: Path = setting(PathText(), "The agent's workspace.", section="agents")
    notes_folder: Path | None = None
    """The folder that is the whole memory (`--notes`), which then is the workspace, too."""
    state_dir: Path
    agent_dir: Path = setting(
        PathText(), "The agent's own directory, with its credentials.", section="agents"
    )
    sessions_dir: Path
    claude_projects: Path | None = None
    """The directory in which Claude Code keeps memory and conversations, by project; None: it is no source."""
    config_path: Path | None
    """None: no file was found and everything is a default."""
    config_is_ours: bool = False
    """True if it is our own file (or would be, if there is none), not one of OpenClaw's."""
    user_timezone: str | None = setting(
        TimeZoneName(),
        "Time zone of the user, for dates of notes.",
        default=None,
        section="agents.defaults",
    )
    """None: the time zone of the machine."""
    memory_slot: str | None = setting(
        FreeText(),
        "Plugin in charge of the chat gateway's own memory, or none; whether it counts here: "
        "see the page about migration.",
        default=None,
        path="memory",
        section="plugins.slots",
    )
    enabled_key: str | None = None
    """The key that gave `search.enabled`, as the file has it; None: the default."""
    started_as: StartedAs = "sidecar"
    model_providers: Mapping[str, ModelProviderSettings] = msgspec.field(default_factory=dict)
    auth: AuthSettings = AuthSettings()
    environment_keys: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    """API keys in variables, by the variable's name: of the process, `.env` or the `env` block."""
    origins: Mapping[str, SettingOrigin] = msgspec.field(default_factory=dict)
    """Documented key path (camelCase, dotted, without the agent part) to its origin."""
    warnings: tuple[ConfigWarning, ...] = ()
