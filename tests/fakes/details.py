"""`details` of a status as a client reads it, with every possible part and every member of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from msgspec import convert

from backends.interface import Details

_SERVICE: Final = {
    "provider": "openai",
    "model": "text-embedding-3-small",
    "endpoint": "https://a/v1",
    "status": "ready",
    "reason": None,
    "nextProbeInS": None,
    "dimensions": 768,
    "fingerprint": {
        "provider": "openai",
        "model": "text-embedding-3-small",
        "endpoint": "https://a/v1",
        "headers": "",
        "dimensions": None,
        "inputType": None,
        "variant": ["sha256 0"],
    },
    "learnedLimits": {"items": {"accepted": 64, "refused": 65}},
    "statistics": {
        "requests": 9,
        "retries": 2,
        "failures": 1,
        "documents": 40,
        "itemErrors": 0,
        "queries": 5,
        "queryCacheHits": 3,
        "tokens": 800,
    },
    "details": None,
}
_LOCAL: Final = {
    "reference": "hf:ggml-org/embeddinggemma-300M-GGUF",
    "worker": {
        "status": "running",
        "pid": 7,
        "residentBytes": 300_000_000,
        "deaths": 0,
        "lastDeath": None,
        "cutTexts": 0,
    },
    "model": {
        "file": "/models/gemma.gguf",
        "engine": "llama.cpp",
        "sha256": "0",
        "quantisation": "Q8_0",
        "dimensions": 768,
        "contextTokens": 2048,
        "maxTokens": 2048,
        "queryPrompt": "query: ",
        "documentPrompt": "",
    },
    "download": {"bytes": 1, "totalBytes": 2},
}
WIRE: Final[dict[str, Any]] = {
    "keyword": {"engine": "fts5", "available": True, "languages": ["english", "german"]},
    "vector": {
        "enabled": True,
        "requested": "openai",
        "reason": "openai is used.",
        "candidates": [
            {
                "provider": "openai",
                "usable": True,
                "reason": "The key comes from OPENAI_API_KEY.",
                "remedy": None,
                "model": "text-embedding-3-small",
                "endpoint": "https://a/v1",
                "keySource": "OPENAI_API_KEY",
                "lacks": None,
            }
        ],
        "provider": {
            "active": _SERVICE,
            "primary": _SERVICE,
            "fallback": {**_SERVICE, "provider": "local", "details": _LOCAL},
            "fellBack": {"origin": "gemini", "reason": "no key"},
        },
        "search": {
            "configured": "auto",
            "engine": "resident",
            "unavailable": {},
            "dimensions": 768,
            "bytesPerChunk": 3072.0,
            "residentVectors": 12_000,
            "residentBytes": 9_400_000,
        },
        "answeredBy": {"provider": "voyage", "model": "voyage-4-large"},
        "backfill": {
            "running": True,
            "lastError": None,
            "coverage": {
                "total": 1_300,
                "embedded": 1_200,
                "failed": 2,
                "dimensions": 768,
                "stored": 1_200,
            },
            "failedTexts": [
                {"path": "memory/a.md", "startLine": 3, "reason": "too long", "attempts": 2}
            ],
        },
        "batch": {
            "enabled": True,
            "reason": None,
            "threshold": 2_000,
            "failures": 0,
            "offForS": None,
            "capacity": None,
            "waiting": 40,
            "jobs": [
                {
                    "id": 1,
                    "state": "submitted",
                    "remoteState": "in_progress",
                    "outcome": None,
                    "items": 60,
                    "done": 20,
                    "stored": 0,
                    "refused": 0,
                    "ageS": 90,
                    "nextPollS": 30.0,
                    "reason": None,
                }
            ],
        },
    },
    "journal": "wal",
    "sessions": {
        "enabled": True,
        "belowThresholds": 2,
        "database": {
            "path": "/state/openclaw-agent.sqlite",
            "version": 23,
            "known": True,
            "leftOut": {"cron": 4},
            "failure": None,
        },
    },
    "leftOut": {".gitignore": 3},
    "qmd": {
        "available": True,
        "command": "qmd",
        "home": "/state/qmd",
        "searchMode": "query",
        "version": "2.8.3",
        "runs": ["qmd", "mcp"],
        "effectiveSearchMode": "query",
        "missingModels": ["rerank"],
        "collections": ["a", "b"],
        "running": "embed",
        "lastUpdateSecondsAgo": 1.5,
        "lastEmbedSecondsAgo": None,
        "lastError": "out of memory",
        "nextTryInSeconds": 0.0,
        "server": {
            "warm": True,
            "pid": 9,
            "port": 8181,
            "starts": 1,
            "memoryBytes": 500_000_000,
            "lastError": None,
        },
    },
    "fallback": {"from": "qmd", "reason": "QMD is not there."},
}


def details(*parts: str, **changes: Any) -> Details:
    """Returns these parts of `WIRE`, decoded. A change is named by its path, with `__` for each step down."""
    wire = deepcopy({part: WIRE[part] for part in parts})
    for path, value in changes.items():
        *above, last = path.split("__")
        place = wire
        for step in above:
            place = place[step]
        place[last] = value
    return convert(wire, Details)
