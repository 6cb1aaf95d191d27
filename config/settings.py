"""The effective settings of one agent: every documented key, resolved, clamped and typed.

Defaults stand here, beside the fields they belong to, and nowhere else. A reload makes a new object. Units are in the
names (`_ms`, `_s`, `_tokens`, `_chars`, `_bytes`) or in the docstring.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NoReturn

import msgspec


class Secret:
    """A credential. `reveal()` is the only way to read it; immutable, compared by value.

    No part of it appears in `repr`, in formatted text, in a rich traceback or table, and encoders
    refuse it, since it is neither a record nor a mapping.
    """

    __slots__ = ("value",)

    value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "value", value)

    def reveal(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.value == other.value

    def __hash__(self) -> int:
        return hash((Secret, self.value))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a secret is immutable: {name}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied into other processes or files")


Source = Literal["memory", "sessions"]
CitationsMode = Literal["auto", "on", "off"]
StartedAs = Literal["sidecar", "service", "plugin", "mcp", "command"]
"""Who started this process: a chat gateway of February over the pipe, a service manager, our plugin, an
MCP client, or a person at the command line."""
ChatType = Literal["direct", "group", "channel", "dm"]


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    wait: bool = True
    concurrency: int = 2
    poll_interval_ms: int = 2000
    timeout_minutes: int = 60


class RemoteSettings(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str | None = None
    api_key: Secret | None = None
    api_key_problem: str | None = None
    """Why the configured key could not be read; no other key may then stand in for it."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    batch: BatchSettings = BatchSettings()


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True):
    model_path: str = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"
    model_path_is_default: bool = True
    model_cache_dir: Path | None = None
    """None: `memory-gateway/models` in the user's cache."""


class VectorStoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    extension_path: Path | None = None
    """None: the bundled sqlite-vec."""
    engine: Literal["auto", "resident", "sqlite-vec", "numpy"] = "auto"
    max_resident_mb: int = 256
    hnsw_from: int = 20_000
    """Vectors of one agent from which on PostgreSQL searches an approximate index, where there is one."""


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    max: int = 4


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    former_path: Path | None = None
    """Where earlier releases had the index of the default `path`; None for a path that was set."""
    driver: Literal["sqlite", "postgres"] = "sqlite"
    url: Secret | None = None
    """Of the PostgreSQL database; it may hold a password."""
    url_problem: str | None = None
    """Why the configured one could not be read."""
    password_file: Path | None = None
    schema: str = "memory_gateway"
    tenant: str = "default"
    view: str | None = None
    """Whose sight of the files the index keeps stamps of; None: this host's."""
    pool: PoolSettings = PoolSettings()
    statement_timeout_ms: int = 15_000
    """0: no limit."""
    vector: VectorStoreSettings = VectorStoreSettings()


class ChunkingSettings(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int = 400
    overlap: int = 80


class SessionSyncSettings(msgspec.Struct, frozen=True, kw_only=True):
    delta_bytes: int = 100_000
    delta_messages: int = 50


class SyncSettings(msgspec.Struct, frozen=True, kw_only=True):
    on_session_start: bool = True
    on_search: bool = True
    watch: bool = True
    watch_debounce_ms: int = 1500
    interval_minutes: int = 0
    """0: no interval sync."""
    search_budget_ms: int = 100
    """How long one search may spend on indexing what changed before it answers."""
    sessions: SessionSyncSettings = SessionSyncSettings()


class DecaySettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    half_life_days: float = 30.0


class HybridSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    vector_weight: float = 0.7
    """Normalised: `vector_weight + text_weight == 1`."""
    text_weight: float = 0.3
    candidate_multiplier: int = 4
    fusion: Literal["weighted", "rrf"] = "weighted"


class QuerySettings(msgspec.Struct, frozen=True, kw_only=True):
    max_results: int = 6
    min_score: float = 0.35
    embedding_timeout_ms: int = 4000
    """How long a search waits for the embedding of its query before it answers by keywords."""
    hybrid: HybridSettings = HybridSettings()
    decay: DecaySettings = DecaySettings()


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    max_entries: int | None = None
    """None: no bound."""


class ExtraPath(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    """Absolute, `~` expanded, lexically normalised; it need not exist."""
    pattern: str | None = None
    exclude: tuple[str, ...] = ()
    """Patterns of what is left out below it, as in a `.gitignore`."""
    raw: str
    """As written in the configuration, for messages."""
    is_optional: bool = False
    """The user did not name it, so nothing is said if it is missing."""


class MemorySearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    store: StoreSettings
    enabled: bool = True
    sources: tuple[Source, ...] = ("memory",)
    extra_paths: tuple[ExtraPath, ...] = ()
    claude_code: bool = False
    session_memory: bool = False
    remember_across_conversations: bool = False
    sessions_in_private_only: bool = False
    """Transcripts are indexed only because of `remember_across_conversations`."""
    provider: str = "auto"
    """The id of a provider in lower case, known here or not; "auto", or "none" for keywords only."""
    fallback: str = "none"
    """As `provider`; "auto" names no fallback."""
    model: str | None = None
    """None: the provider's own default."""
    output_dimensionality: int | None = None
    query_input_type: str | None = None
    document_input_type: str | None = None
    remote: RemoteSettings = RemoteSettings()
    local: LocalSettings = LocalSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    sync: SyncSettings = SyncSettings()
    query: QuerySettings = QuerySettings()
    cache: CacheSettings = CacheSettings()


class ScopeMatch(msgspec.Struct, frozen=True, kw_only=True):
    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None
    raw_key_prefix: str | None = None


class ScopeRule(msgspec.Struct, frozen=True, kw_only=True):
    action: Literal["allow", "deny"]
    match: ScopeMatch = ScopeMatch()


class ScopePolicy(msgspec.Struct, frozen=True, kw_only=True):
    default: Literal["allow", "deny"] = "allow"
    rules: tuple[ScopeRule, ...] = ()


class QmdPath(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    name: str
    pattern: str = "**/*.md"


class QmdSessionsSettings(msgspec.Struct, frozen=True, kw_only=True):
    export_dir: Path
    enabled: bool = False
    retention_days: int | None = None
    """None: unlimited."""


class QmdUpdateSettings(msgspec.Struct, frozen=True, kw_only=True):
    interval_ms: int = 300_000
    """0: no timer."""
    debounce_ms: int = 15_000
    on_boot: bool = True
    wait_for_boot_sync: bool = False
    embed_interval_ms: int = 3_600_000
    """0: no periodic embed."""
    command_timeout_ms: int = 30_000
    update_timeout_ms: int = 120_000
    embed_timeout_ms: int = 120_000


class QmdLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_results: int = 6
    max_snippet_chars: int = 700
    max_injected_chars: int = 4000
    timeout_ms: int = 4000


class QmdSettings(msgspec.Struct, frozen=True, kw_only=True):
    sessions: QmdSessionsSettings
    command: str = "qmd"
    search_mode: Literal["query", "search", "vsearch"] = "query"
    include_default_memory: bool = True
    paths: tuple[QmdPath, ...] = ()
    update: QmdUpdateSettings = QmdUpdateSettings()
    limits: QmdLimits = QmdLimits()
    scope: ScopePolicy = ScopePolicy(
        default="deny",
        rules=(ScopeRule(action="allow", match=ScopeMatch(chat_type="direct")),),
    )


class MemoryFlushSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    soft_threshold_tokens: int = 4000
    prompt: str | None = None
    """None: the built-in text."""
    system_prompt: str | None = None
    model: str | None = None
    """None: the session's own."""
    force_flush_transcript_bytes: int = 0
    """0: only tokens decide."""


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["default", "safeguard"] = "default"
    reserve_tokens_floor: int = 20_000
    max_history_share: float | None = None
    max_active_transcript_bytes: int = 0
    """0: no size of a transcript makes the chat gateway compact."""
    post_index_sync: Literal["off", "async", "await"] = "async"
    memory_flush: MemoryFlushSettings = MemoryFlushSettings()


class ModelProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`models.providers.<name>`, as far as embeddings need it."""

    api: str | None = None
    """The wire that its models are asked over; None: not said."""
    base_url: str | None = None
    api_key: Secret | None = None
    api_key_problem: str | None = None
    """As in `RemoteSettings`."""
    base_url_problem: str | None = None
    """Why the address is configured and cannot be read: nothing may go to another one in its place."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class AuthProfileRef(msgspec.Struct, frozen=True, kw_only=True):
    """`auth.profiles.<id>` of the configuration file: which profile exists, without its secret."""

    provider: str
    mode: str | None = None


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    order: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Provider name to profile ids, most preferred first."""
    profiles: Mapping[str, AuthProfileRef] = msgspec.field(default_factory=dict)


class SettingOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where one effective value came from."""

    kind: Literal["default", "file", "environment", "command-line", "derived"]
    detail: str | None = None
    """For a file its key path and line (`agents.defaults.memorySearch.provider, line 12`)."""


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    """Key path, dotted, as in the file."""
    message: str
    line: int | None = None
    file: str | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the upper floors may know about the configuration of one agent."""

    agent_id: str
    workspace: Path
    notes_folder: Path | None = None
    """The folder that is the whole memory (`--notes`), which then is the workspace, too."""
    state_dir: Path
    agent_dir: Path
    sessions_dir: Path
    claude_projects: Path | None = None
    """Where Claude Code keeps memory and conversations, by project; None: it is no source."""
    config_path: Path | None
    """None: no file was found and everything is a default."""
    config_is_ours: bool = False
    """Whether it is our own file (or would be, where there is none), not one of OpenClaw."""
    search: MemorySearchSettings
    qmd: QmdSettings
    backend: Literal["builtin", "qmd"] = "builtin"
    citations: CitationsMode = "auto"
    memory_slot: str | None = None
    """`plugins.slots.memory`: who is in charge of the chat gateway's own memory."""
    enabled_key: str | None = None
    """The key that gave `search.enabled`, as the file has it; None: the default."""
    started_as: StartedAs = "sidecar"
    scope: ScopePolicy | None = None
    """`memory.scope`: guards the builtin backend; None lets everybody search."""
    append_enabled: bool = False
    write_granted: bool = False
    """Whether that was said on the command line, for the client that is served alone."""
    compaction: CompactionSettings = CompactionSettings()
    user_timezone: str | None = None
    """IANA name (`agents.defaults.userTimezone`); None: the time zone of the machine."""
    model_providers: Mapping[str, ModelProviderSettings] = msgspec.field(default_factory=dict)
    auth: AuthSettings = AuthSettings()
    environment_keys: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    """API keys in variables, by the variable's name: of the process, `.env` or the `env` block."""
    origins: Mapping[str, SettingOrigin] = msgspec.field(default_factory=dict)
    """Documented key path (camelCase, dotted, without the agent part) to its origin."""
    warnings: tuple[ConfigWarning, ...] = ()
