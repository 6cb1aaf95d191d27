"""The places that each section of the settings may have in a file, and keys there that no field contains.

Each setting is declared once, in `config.settings`; this is the table of places, of retired keys and of those that only
choose between others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from config.keys.kinds import ApiKey, Flag, FreeText, Headers, PathText, Unresolved, WebAddress
from config.keys.tree import OWN_ENTRY, Key, ListOf, Section, keys_of
from config.settings import Settings

_KEYS: Final = tuple(keys_of(Settings))


def _declared(section: str) -> tuple[Key, ...]:
    return tuple(key for name, key in _KEYS if name == section)


_MEMORY_RETIRED = (
    ("qmd.mode", "QMD is always kept running"),
    ("qmd.mcporter", "the gateway talks to QMD directly"),
    ("qmd.rerank", "searchMode decides whether results are reranked"),
    ("qmd.searchTool", "the tool follows from searchMode"),
    ("qmd.update.startup", "onBoot decides whether an update runs at the start"),
    ("qmd.update.startupDelayMs", "onBoot decides whether an update runs at the start"),
)


MEMORY: Final = Section(
    "memory",
    (OWN_ENTRY, "memory"),
    _declared("memory"),
    retired=_MEMORY_RETIRED,
    # The host's own memory goes on dreaming while another plugin has its slot, by that plugin's settings. The plugin
    # reads whether it recalls by itself.
    foreign=("dreaming", "recall"),
    prefix="",
)

_SEARCH_RETIRED = (
    ("multimodal", "only Markdown is indexed: pictures and sound would need other embeddings"),
    ("store.fts", "one tokenizer serves every script"),
    ("local.contextSize", "the size follows from the model and the chunks"),
    ("remote.nonBatchConcurrency", "concurrency adapts to the provider by itself"),
    ("sync.embeddingBatchTimeoutSeconds", "every request has its own time limit"),
    ("sync.sessions.postCompactionForce", "a compacted transcript is noticed by itself"),
    ("query.hybrid.mmr", "overlapping results are merged instead"),
    ("qmd", "QMD collections are named in qmd.paths"),
)

_UNREADABLE = {
    # Memory that was meant to be off must not be on by mistake, and notes must not go to another provider
    # or address than the one that was meant.
    "enabled": (False, "memory is off"),
    "provider": ("none", "only keywords are searched"),
    "remote.apiKey": (
        Unresolved("remote.apiKey cannot be read"),
        "no other key is used in its place",
    ),
    "remote.baseUrl": (
        Unresolved("remote.baseUrl cannot be read"),
        "no key is sent to any other address",
    ),
    "store.url": (
        Unresolved("store.url cannot be read"),
        "no other database is used in its place",
    ),
}

SEARCH: Final = Section(
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
    (
        *_declared("memorySearch"),
        Key("inputType", FreeText(), "Sets queryInputType and documentInputType at once."),
    ),
    retired=_SEARCH_RETIRED,
    unreadable=_UNREADABLE,
    prefix="",
)
AGENT: Final = Section(
    "",
    ("agents.list.[]", "agents.entries.*"),
    (
        Key("default", Flag(), "Marks the agent that is meant when none is named."),
        *_declared("agents"),
    ),
    unknown="ignore",
)
AGENT_LIST: Final = Section(
    "agents.list[]",
    ("agents.list.[]",),
    (Key("id", FreeText(), "Name of the agent.", required=True),),
    unknown="ignore",
)
AGENT_DEFAULTS: Final = Section(
    "agents.defaults",
    ("agents.defaults",),
    (
        Key("workspace", PathText(), "Workspace of the default agent."),
        *_declared("agents.defaults"),
    ),
    unknown="ignore",
)
COMPACTION: Final = Section(
    "compaction",
    (f"{OWN_ENTRY}.compaction", "agents.defaults.compaction"),
    _declared("compaction"),
    unknown="ignore",
    retired=(
        ("enabled", "a context that overflows is compacted all the same, so the flush stays due"),
        ("keepRecentTokens", "how much a compaction leaves is the chat gateway's business"),
        ("notifyUser", "what its users see of a compaction is the chat gateway's business"),
    ),
    # Keys of the chat gateway that resemble one above.
    foreign=("model", "reserveTokens"),
)
MEMORY_FLUSH: Final = Section(
    "compaction.memoryFlush",
    (f"{OWN_ENTRY}.compaction.memoryFlush", "agents.defaults.compaction.memoryFlush"),
    _declared("compaction.memoryFlush"),
)
PLUGINS: Final = Section(
    "plugins.slots", ("plugins.slots",), _declared("plugins.slots"), unknown="ignore"
)
MODELS: Final = Section(
    "models.providers",
    ("models.providers",),
    (
        Key("*.api", FreeText(), "The wire of the provider; OpenAI's serves embeddings here."),
        Key("*.baseUrl", WebAddress(checked=False), "Address of the provider's API."),
        Key("*.apiKey", ApiKey(), "Key for the provider's API."),
        Key("*.headers", Headers(), "More HTTP headers for the provider."),
    ),
    unknown="ignore",
    unreadable={
        "*.apiKey": (Unresolved("its apiKey cannot be read"), "no other key is used in its place"),
        "*.baseUrl": (Unresolved("its baseUrl cannot be read"), "its key is not sent anywhere"),
    },
)
AUTH: Final = Section(
    "auth",
    ("auth",),
    (
        Key("profiles.*.provider", FreeText(), "Provider of a profile; its secret is elsewhere."),
        Key("profiles.*.mode", FreeText(), "Kind of credential of a profile."),
        Key("order.*", ListOf(FreeText()), "Profiles of a provider, the best first."),
    ),
    unknown="ignore",
)

SECTIONS: Final[tuple[Section, ...]] = (
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

FIELDS: Final[Mapping[str, Key]] = {
    section.documented(key.path): key for section in SECTIONS for key in section.keys if key.field
}
"""The keys that fill a field of the settings, by their documented paths."""

_PLACES_IN_OWN_FILE: Final = (
    (SEARCH, ""),
    (MEMORY, ""),
    (COMPACTION, "compaction"),
    (MEMORY_FLUSH, "compaction.memoryFlush"),
    (AGENT_DEFAULTS, "agents.defaults"),
    (MODELS, "models.providers"),
    (AUTH, "auth"),
)
OWN_FILE_SECTIONS: Final[tuple[Section, ...]] = tuple(
    replace(
        section,
        places=(place,),
        unknown="refuse" if section not in (MODELS, AUTH) else "ignore",
        retired=tuple(one for one in section.retired if one[0] != "qmd"),  # here it is MEMORY's
        foreign=(*section.foreign, *(("notes", "setup", "env") if section is SEARCH else ())),
    )
    for section, place in _PLACES_IN_OWN_FILE
)
"""The same keys as they are in our own file, each by its short name; an unknown name there is an error."""
