"""The keys outside memory that memory needs: agents, compaction, models, credentials, plugins.

These objects belong to the chat gateway, so what is not listed here is passed over in silence.
"""

from __future__ import annotations

from config.keys.composite import ListOf
from config.keys.credentials import ApiKey, Headers, Unresolved
from config.keys.kinds import ByteSize, Choice, Flag, Real, Text, Whole
from config.keys.texts import Address, PathText, TimeZoneName
from config.keys.tree import HOME, Key, Section

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
    (Key("id", Text(), "Name of the agent.", "", required=True),),
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
    (f"{HOME}.compaction", "agents.defaults.compaction"),
    "compaction",
    (
        Key("mode", Choice(("default", "safeguard")), "How the chat gateway compacts."),
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
            Choice(("off", "async", "await")),
            "Whether a compaction makes the index look at the transcripts again: later or at once.",
        ),
    ),
    unknown="ignore",
    retired=(
        ("enabled", "a context that overflows is compacted all the same, so the flush stays due"),
        ("keepRecentTokens", "how much a compaction leaves is the chat gateway's business"),
        ("notifyUser", "what its users are told is the chat gateway's business"),
    ),
    # Of the chat gateway's own keys those that resemble one above.
    foreign=("model", "reserveTokens"),
)
MEMORY_FLUSH = Section(
    "compaction.memoryFlush",
    (f"{HOME}.compaction.memoryFlush", "agents.defaults.compaction.memoryFlush"),
    "compaction.memory_flush",
    (
        Key("enabled", Flag(), "Lets the agent write down memories before compaction."),
        Key(
            "softThresholdTokens",
            Whole(unit="tokens", floors=True),
            "How long before compaction the flush comes.",
        ),
        Key("prompt", Text(), "What the flush says to the agent instead of the built-in text."),
        Key("systemPrompt", Text(), "System prompt of the flush instead of the built-in text."),
        Key("model", Text(), "Model for the flush; told the chat gateway, which runs it."),
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
            Text(),
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
        Key("*.api", Text(), "The wire of the provider; OpenAI's serves embeddings here.", ""),
        Key("*.baseUrl", Address(checked=False), "Address of the provider's API.", ""),
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
        Key("profiles.*.provider", Text(), "Provider of a profile; its secret is elsewhere.", ""),
        Key("profiles.*.mode", Text(), "Kind of credential of a profile.", ""),
        Key("order.*", ListOf(Text()), "Profiles of a provider, the best first.", ""),
    ),
    unknown="ignore",
)
