"""Configurations as people write them, with keys at all the places where this gateway ever read them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

HOME = "plugins.entries.memory-gateway.config"
SEARCH = "agents.defaults.memorySearch."
GENERAL = ("agents.defaults.memorySearch", "memory.search", "memorySearch", f"{HOME}.search")
OF_AGENTS = (
    "agents.list.0.memorySearch",
    "agents.list.1.memorySearch",
    "agents.entries.ops.memory.search",
    f"{HOME}.agents.ops.search",
)


def written(members: dict[str, Any], dice: random.Random, indent: str = "  ") -> Iterator[str]:
    """Yields lines of JSON5 for texts by name, with comments, on one line or on several."""
    for name, value in members.items():
        if dice.random() < 0.2:
            yield f"{indent}// about {name}, in {{braces}}"
        shown = json.dumps(name) if dice.random() < 0.3 or not name.isidentifier() else name
        if not isinstance(value, dict):
            behind = f" /* {name} */" if dice.random() < 0.2 else ""
            yield f"{indent}{shown}: {value},{behind}"
            continue
        inner = list(written(value, dice, indent + "  "))
        flat = "".join(f"{line.strip()} " for line in inner)
        if "//" in flat or dice.random() < 0.7:
            yield from (f"{indent}{shown}: {{", *inner, f"{indent}}},")
        else:
            yield f"{indent}{shown}: {{{flat}}},"


def nested(texts: dict[str, str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, text in texts.items():
        *outer, name = path.split(".")
        branch = root
        for part in outer:
            branch = branch.setdefault(part, {})
        branch[name] = text
    return root


def older_file(rows: Sequence[dict[str, Any]], seed: int, *, blank: bool = True) -> str:
    """Returns a valid file; a row says which `valid` texts a `key` may have.

    Without `blank` every key has a value. The same seed always gives the same text.
    """
    dice = random.Random(seed)
    texts: dict[str, str] = {}
    # A host has agents in one of the two ways, never in both.
    of_agents = [place for place in OF_AGENTS if ("list" in place) == (seed % 2 == 0)]
    for row in dice.sample(rows, dice.randint(1, 25)):
        valid = [text for text in row["valid"] if blank or text.strip("' ") not in ("", "null")]
        key, value = row["key"], dice.choice(valid)
        # A path has to be one that no two agents share.
        if key.endswith("store.path"):
            value = "'~/{agentId}.sqlite'"
        if not key.startswith(SEARCH) or key.endswith("store.path"):
            texts[key] = value
            continue
        for place in dice.sample((*GENERAL, *of_agents), dice.randint(1, 3)):
            texts[f"{place}.{key.removeprefix(SEARCH)}"] = dice.choice(valid)
    whole = nested(texts)
    agents = whole.get("agents", {}).pop("list", None)
    if agents:
        ids = ({"id": "'main'", "default": "true"}, {"id": "'ops'"})
        items = [one | agents.get(str(number), {}) for number, one in enumerate(ids)]
        lines = [
            "".join(f"{line.strip()} " for line in written(item, _Quiet(), "")) for item in items
        ]
        whole["agents"]["list"] = f"[{', '.join(f'{{{line}}}' for line in lines)}]"
    return "{\n" + "\n".join(written(whole, dice)) + "\n}\n"


class _Quiet(random.Random):
    """Dice by which no comment is written."""

    def random(self) -> float:
        return 0.99
