"""Every key that memory reads, stated once: validation, merging, output and reference follow from it.

`SECTIONS` is the table. A key's default is not in it: it stands in `config.settings`, beside the
field that the key fills.
"""

from __future__ import annotations

from config.keys.table import (
    AGENT,
    AGENT_DEFAULTS,
    AGENT_LIST,
    AUTH,
    COMPACTION,
    MEMORY,
    MEMORY_FLUSH,
    MODELS,
    PLUGINS,
    SEARCH,
)
from config.keys.tree import Section

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
