"""What the plugin has in common with us: it reads `shared.json`, which `./scripts/reference` makes of this."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from config.settings import CompactionSettings
from gateway.flush import flush_texts
from gateway.sessions.loading import recall_texts

PLUGIN: Final = Path(__file__).with_name("plugin")
SHARED: Final = PLUGIN / "shared.json"


def shared_json() -> str:
    """Numbers and words of the flush, and the instructions for recall, as one document."""
    compaction = CompactionSettings()
    shared: dict[str, Any] = {
        "flush": {
            "softThresholdTokens": compaction.memory_flush.soft_threshold_tokens,
            "reserveTokensFloor": compaction.reserve_tokens_floor,
            **flush_texts(),
        },
        "instructions": recall_texts(),
    }
    return msgspec.json.format(msgspec.json.encode(shared), indent=2).decode() + "\n"
