"""Configurations made from the JSON schema that OpenClaw prints (`openclaw config schema`).

The same schema and seed always give the same texts. They follow the schema; the host's own validator decides
what is beyond it (that a plugin exists, that no two agents share a directory).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from config.vendors import VENDORS

Schema = dict[str, Any]

_ALWAYS: Final = ("memory",)
_OFTEN: Final = ("agents", "models", "plugins", "auth", "env", "secrets", "session")
_SOMETIMES: Final = (
    "logging",
    "ui",
    "diagnostics",
    "messages",
    "commands",
    "cron",
    "skills",
    "tools",
)
_LEFT_OUT: Final = frozenset(
    {
        # They name things that have to exist on the machine, or in the package.
        *("$schema", "load", "allow", "deny", "contextEngine", "pluginIntegration", "localService"),
        *("command", "runtime", "agentRuntime", "ownership", "skills", "model", "models", "auth"),
        # The host requires more of them than the schema does.
        *(
            "bypassHosts",
            "allowedHosts",
            "decisionModel",
            "cost",
            "catalogRefresh",
            "maintenance",
            "activeHours",
            "heartbeat",
        ),
    }
)
_NAMES: Final = ("main", "ops", "Watch_2", "home-2")
_PROVIDERS: Final = (
    *VENDORS,
    *("local", "auto", "none", "bedrock", "github-copilot", "my-server", " OpenAI ", ""),
)
_TEXTS: Final = (
    "x",
    "",
    " ",
    "a b",
    "~/notes",
    "${HOME}",
    "${NOWHERE_SET}/x",
    "ünï",
    "2mb",
    "$",
    "5m",
)
_BY_NAME: Final[dict[str, tuple[str, ...]]] = {
    "provider": _PROVIDERS,
    "fallback": _PROVIDERS,
    "baseUrl": ("http://127.0.0.1:9/v1", "https://example.com/v1/", "${NOWHERE_SET}"),
    "apiKey": ("sk-of-nobody", "${NOWHERE_SET}", "${HOME}"),
    "path": ("~/notes", "docs", "/srv/notes", "${NOWHERE_SET}/notes"),
    "pattern": ("**/*.md", "*.txt"),
    "modelPath": ("hf:org/repo/file.gguf", "~/models/x.gguf"),
    "userTimezone": ("Europe/Vienna", "Asia/Tokyo", "UTC"),
    "memory": ("none", "memory-core"),
    "forceFlushTranscriptBytes": ("2mb", "512kb", "1.5GB", "0", "100"),
    "maxActiveTranscriptBytes": ("20mb", "7b"),
}
_OF_PATTERNS: Final = ("name", "SOME_KEY", "value", "/value", "1", "abc123", "github:abc")
_SECRET_IDS: Final = {"file": "/providers/of-nobody", "exec": "vault/of-nobody"}
_DEPTH: Final = 9


def configurations(schema: Schema, seed: int, count: int) -> Iterator[str]:
    """Yields JSON5 texts, one configuration each."""
    for number in range(count):
        maker = _Maker(random.Random(f"{seed}-{number}"))
        yield _written(maker.whole(schema), maker.dice)


class _ImpossibleError(Exception):
    """There is no known value for this part of the schema."""


class _Maker:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def whole(self, schema: Schema) -> dict[str, Any]:
        properties = schema["properties"]
        chosen = [
            *_ALWAYS,
            *(name for name in _OFTEN if self.dice.random() < 0.6),
            *(name for name in _SOMETIMES if self.dice.random() < 0.15),
        ]
        made = {
            name: self.value(properties[name], (name,)) for name in chosen if name in properties
        }
        self.dice.shuffle(order := list(made))
        return {name: made[name] for name in order}

    def value(self, schema: Schema, at: tuple[str, ...]) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.dice.choice(schema["enum"])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._one_of(schema[several], at)
        kind = schema.get("type")
        kind = self.dice.choice(kind) if isinstance(kind, list) else kind
        make: dict[str, Callable[[Schema, tuple[str, ...]], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._number,
            "number": self._number,
            "boolean": lambda _schema, _at: self.dice.random() < 0.5,
        }
        if kind not in make:
            raise _ImpossibleError
        return make[kind](schema, at)

    def _one_of(self, schemas: list[Schema], at: tuple[str, ...]) -> Any:
        for schema in self.dice.sample(schemas, len(schemas)):
            try:
                return self.value(schema, at)
            except _ImpossibleError:
                continue
        raise _ImpossibleError

    def _object(self, schema: Schema, at: tuple[str, ...]) -> dict[str, Any]:
        if len(at) > _DEPTH:
            raise _ImpossibleError
        made: dict[str, Any] = {}
        required = schema.get("required", ())
        share = 0.55 if _is_read(at) else 0.12
        for name, member in schema.get("properties", {}).items():
            if name not in required and (
                not self._is_wanted(at, name) or self.dice.random() > share
            ):
                continue
            try:
                made[name] = self.value(member, (*at, name))
            except _ImpossibleError:
                if name in required:
                    raise
        if at == ("agents",) and len(made.get("entries", ())) > 1:
            self._choose_owner(made)
        if made.get("source") in _SECRET_IDS and "id" in made:
            made["id"] = _SECRET_IDS[made["source"]]
        free = schema.get("additionalProperties")
        if isinstance(free, dict) and not made:
            made.update(self._free_members(free, at))
        return made

    def _is_wanted(self, at: tuple[str, ...], name: str) -> bool:
        is_memorys = name == "model" and at[-1] in ("search", "memoryFlush")
        return name not in _LEFT_OUT or is_memorys

    def _choose_owner(self, agents: dict[str, Any]) -> None:
        """Makes one of several agents the default, or declares that none is."""
        for entry in agents["entries"].values():
            entry.pop("default", None)
        if self.dice.random() < 0.5:
            agents["ownership"] = "explicit"
        else:
            self.dice.choice(list(agents["entries"].values()))["default"] = True

    def _free_members(self, schema: Schema, at: tuple[str, ...]) -> dict[str, Any]:
        names: tuple[str, ...] = ("X_NAME", "OTHER")
        if at == ("agents", "entries"):
            names = _NAMES
        elif at == ("models", "providers"):
            names = ("openai", "ollama", "my-server")
        elif at == ("plugins", "entries"):
            names = ("memory-core",)
        made = {}
        for name in self.dice.sample(names, self.dice.randint(1, len(names))):
            try:
                made[name] = self.value(schema, (*at, name))
            except _ImpossibleError:
                continue
        if "my-server" in made:
            made["my-server"] = {"baseUrl": "http://127.0.0.1:9/v1", "models": []} | made[
                "my-server"
            ]
        return made

    def _array(self, schema: Schema, at: tuple[str, ...]) -> list[Any]:
        items = schema.get("items")
        if not isinstance(items, dict):
            return []
        made = []
        for _ in range(self.dice.randint(schema.get("minItems", 0), 3)):
            try:
                made.append(self.value(items, at))
            except _ImpossibleError:
                break
        if len(made) < schema.get("minItems", 0):
            raise _ImpossibleError
        return made

    def _string(self, schema: Schema, at: tuple[str, ...]) -> str:
        texts = _BY_NAME.get(at[-1], _TEXTS)
        if at[-1] in ("workspace", "agentDir"):
            texts = (f"~/of/{'-'.join(at)}", f"/srv/{'-'.join(at)}")
        pattern = schema.get("pattern")
        if pattern is not None:
            texts = _OF_PATTERNS
        fitting = [
            text
            for text in texts
            if schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 1000)
            and (pattern is None or _matches(pattern, text))
        ]
        if not fitting:
            raise _ImpossibleError
        return self.dice.choice(fitting)

    def _number(self, schema: Schema, _at: tuple[str, ...]) -> float:
        lowest = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        highest = min(schema.get("maximum", schema.get("exclusiveMaximum", 10**6)), 10**6)
        if schema["type"] == "integer":
            lowest += "exclusiveMinimum" in schema
            return self.dice.choice((lowest, highest, self.dice.randint(lowest, highest)))
        inside = lowest + (highest - lowest) * self.dice.uniform(0.01, 0.99)
        return round(inside, 4) or inside


def _is_read(at: tuple[str, ...]) -> bool:
    """Returns whether memory reads this part, so that many of its keys are wanted."""
    return (
        at[0] in ("memory", "auth", "env")
        or (
            at[:2] in (("agents", "entries"), ("models", "providers"), ("plugins", "slots"))
            and (len(at) <= 2 or "memory" in at or at[0] != "agents")
        )
        or at == ("agents",)
        or "compaction" in at
        or at in (("models",), ("plugins",), ("session",))
    )


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # JavaScript's own
        return False


def _written(value: Any, dice: random.Random, indent: str = "") -> str:
    """Returns JSON5 as people write it: names without quotes, comments, commas at the end."""
    if isinstance(value, dict):
        inner = indent + "  "
        lines = [f"{inner}{_name(k)}: {_written(v, dice, inner)}," for k, v in value.items()]
        if lines and dice.random() < 0.2:
            lines.insert(dice.randrange(len(lines)), f"{inner}// a remark, {{with}} 'signs'")
        return "{\n" + "".join(f"{line}\n" for line in lines) + indent + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(item, dice, indent) for item in value) + "]"
    if isinstance(value, str) and "'" not in value and "\\" not in value and dice.random() < 0.5:
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else json.dumps(name)
