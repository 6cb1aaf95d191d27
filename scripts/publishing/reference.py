"""Makes docs/configuration.md from the table of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from config.describe import describe_rows
from config.keys.tree import Key, Section
from config.loading import load_settings
from config.sections import SECTIONS
from config.source.discover import LoadRequest

_HOME: Final = "/nonexistent"
"""A user who does not exist, so that the defaults do not depend on the machine that prints them."""
_TITLE: Final = """\
# Configuration

Look up a setting, or change one. `./scripts/reference` makes this page from the program's own table of keys. These
ten are what people change:
"""
_CHANGED: Final = (
    "provider",
    "model",
    "remote.baseUrl",
    "remote.apiKey",
    "query.maxResults",
    "query.minScore",
    "query.decay.enabled",
    "extraPaths",
    "append.enabled",
    "store.path",
)
_INTRODUCTION: Final = """\
    memory-gateway config set query.maxResults 8
    memory-gateway config unset query.maxResults
    memory-gateway config query

`config set` checks the value and writes it; comments stay. With `--agent ID` a key of `memorySearch` is set, and
taken out, for that agent alone. Where a value is not allowed, it says which are. `config WORD` shows a key and those
below it, else all that have the word in their name, each with its value and where that comes from.
`memory-gateway reload` makes a gateway that runs read them again.

A key has one name, here and in every message. Settings are in two files. Both are JSON5, and every key in them is
optional:

* **Ours**, `~/.config/memory-gateway/config.json5`, where a key stands by its name: `{query: {maxResults: 8}}`. It is
  read for a [folder of notes](notes.md), and where there is no `openclaw.json`. A slip in it stops the start (exit
  code 78), with its line and column.
* **`openclaw.json`** in OpenClaw's state directory. There a key stands below one of the places that its table names;
  the first named place wins, and an agent's own entry wins over the defaults. For an unknown key there is a warning
  with the nearest known name.

What happens with a value that cannot be read:

* **A key that OpenClaw has, too**: the value is ignored, with a warning that names file and line. The start goes on.
* **A key that is ours alone**: the start stops (exit code 78), with line and column.
* **A number beyond what the program can use**, such as a share above 1 or a wait of more than 24.8 days, becomes the
  nearest that it can, and a duration or a time zone that cannot be read counts as not set: wherever it stands, with a
  warning. `status`, `doctor`, `config` and the log of `serve` show warnings; `config set` refuses such a value.
* **Where the default would be careless**, the safe side is taken: `enabled` is then off, `provider` is `none`, and a
  key is sent nowhere if its address is not known.

OpenClaw refuses a file with keys that it does not know. In `openclaw.json`, `plugins.entries.memory-gateway.config`
is therefore the place for everything that OpenClaw has no key for:

    {plugins: {entries: {"memory-gateway": {config: {
      backend: "builtin", qmd: {}, scope: {}, append: {enabled: true}, compaction: {},
      search: {store: {path: "~/index/{agentId}.sqlite"}, chunking: {tokens: 400}},
      agents: {ops: {search: {query: {decay: {enabled: true}}}}},
    }}}}}

Of several places for one key an agent's own wins, then this one, then the older ones, then the default.
`memory-gateway doctor` names the keys that OpenClaw would refuse where they stand, and
`memory-gateway config --migrate` prints the file with them moved: [migration](migration.md).
"""


def reference_markdown() -> str:
    """Returns the whole document."""
    request = LoadRequest(environment={"HOME": _HOME}, cwd=Path(_HOME))
    rows = describe_rows(load_settings(request))
    defaults = {row.path: row.value_text.replace(_HOME, "~") for row in rows}
    parts = [
        _TITLE,
        _most_changed(defaults),
        _INTRODUCTION,
        *(_section(section, defaults) for section in SECTIONS),
    ]
    return "\n".join(parts)


def _most_changed(defaults: Mapping[str, str]) -> str:
    keys = {section.documented(key.path): key for section in SECTIONS for key in section.keys}
    rows = (_row_of_key(keys[name], defaults[name]) for name in _CHANGED)
    return "\n".join((*_HEAD, *rows, ""))


def _section(section: Section, defaults: Mapping[str, str]) -> str:
    lines = [
        f"## `{section.name}`" if section.name else "## An agent",
        "",
        _places(section),
        "",
        *_HEAD,
        *(
            _row_of_key(key, defaults.get(section.documented(key.path), "–"))
            for key in section.keys
        ),
        *_retired(section),
        "",
    ]
    return "\n".join(lines)


def _places(section: Section) -> str:
    """Where it stands for all agents, and for one alone, which wins."""
    one = [place for place in section.places if place.startswith("agents.list.") or ".*" in place]
    ways = [place for place in section.places if place not in one], one
    everybody, alone = (", else ".join(f"`{place}`" for place in way) for way in ways)
    return (
        f"Stands at {everybody}; for one agent alone, at {alone}."
        if everybody and alone
        else f"Stands at {everybody or alone}."
    )


_HEAD: Final = ("| key | allowed | default | meaning |", "|---|---|---|---|")


def _row_of_key(key: Key, default: str) -> str:
    names = ", ".join(f"`{path}`" for path in (key.path, *key.aliases))
    shown = "–" if default == "–" else f"`{default}`"
    return f"| {names} | {_cell(key.kind.allowed)} | {_cell(shown)} | {_cell(key.meaning)} |"


def _retired(section: Section) -> Iterator[str]:
    if section.retired:
        yield ""
        yield "Known from other releases, without effect here:"
        yield ""
        yield from (f"* `{path}`: {reason}" for path, reason in section.retired)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    print(reference_markdown(), end="")
