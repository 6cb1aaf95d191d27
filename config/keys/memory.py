"""The keys of `memory.*`: which backend answers, citations, the QMD sidecar."""

from __future__ import annotations

from config.keys.kinds import MAX_TIMER_MS, Choice, Duration, Flag, Whole
from config.keys.records import QmdPaths, Scope
from config.keys.texts import Command, PathText
from config.keys.tree import HOME, Key, Section

_MILLISECONDS = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS)
_TIMEOUT = Whole(unit="milliseconds", ceiling=MAX_TIMER_MS, zero="default")
_MAX_RETENTION_DAYS = 36_500

_GENERAL = (
    Key("backend", Choice(("builtin", "qmd")), "Who searches: the builtin index or QMD."),
    Key(
        "citations",
        Choice(("auto", "on", "off")),
        "Whether snippets name their source; auto does so in direct chats.",
    ),
    Key("scope", Scope(), "Which sessions may search the builtin index; without it all may."),
    Key(
        "append.enabled", Flag(), "Offers the tool that appends to the daily log.", "append_enabled"
    ),
)

_QMD = (
    Key("qmd.command", Command(), "The QMD program."),
    Key(
        "qmd.searchMode",
        Choice(("query", "search", "vsearch")),
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

_RETIRED = (
    ("qmd.mode", "QMD is always kept running"),
    ("qmd.mcporter", "the gateway talks to QMD directly"),
    ("qmd.rerank", "searchMode decides whether results are reranked"),
    ("qmd.searchTool", "the tool follows from searchMode"),
    ("qmd.update.startup", "onBoot decides whether an update runs at the start"),
    ("qmd.update.startupDelayMs", "onBoot decides whether an update runs at the start"),
)

MEMORY = Section(
    "memory",
    (HOME, "memory"),
    "",
    (*_GENERAL, *_QMD),
    retired=_RETIRED,
    # The host's own memory goes on dreaming while another plugin has its slot, by that one's settings.
    foreign=("dreaming",),
)
