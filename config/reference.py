"""The reference of every key as Markdown: where it may stand, what is allowed, the default, the meaning.

Pure. Made from the same table that validates the file, so it cannot differ from what the program
does; `scripts/reference` writes it to `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from config.describe import describe_rows
from config.keys import SECTIONS
from config.keys.tree import Key, Section
from config.loading.load import load_settings
from config.source.discover import LoadRequest

_HOME: Final = "/nonexistent"
"""Of nobody: the defaults must not depend on whose machine writes them down."""
_INTRODUCTION: Final = """\
# Configuration

Made from the program's own table of keys by `./scripts/reference`. The file is `openclaw.json` (JSON5) in the state directory; every key is
optional. `./scripts/run config` shows what is in force and where each value comes from. A key may stand at several places: the first named
place wins, and an agent's own entry wins over the defaults. Unknown keys are warned of with the nearest known name.

A key that OpenClaw has too never stops the start: a value that cannot be read is warned of with file and line and does not count. Settings
that are ours alone are strict: such a value there stops the start (exit code 78) and says line and column. Where the default would be careless,
what cannot be read errs on the safe side: `enabled` is then off, `provider` is `none`, and a key is sent nowhere whose address is not known.

`plugins.entries.memory-gateway.config` is the place for everything that OpenClaw has no key for, since it refuses a file with unknown keys elsewhere:

    {plugins: {entries: {"memory-gateway": {config: {
      backend: "builtin", qmd: {}, scope: {}, append: {enabled: true}, compaction: {},
      search: {store: {path: "~/index/{agentId}.sqlite"}, chunking: {tokens: 400}},
      agents: {ops: {search: {query: {decay: {enabled: true}}}}},
    }}}}}

Of several places for one key an agent's own wins, then this one, then the older ones, then the default. `memory-gateway doctor` names the keys
that OpenClaw would refuse where they stand, and `memory-gateway config --migrate` prints the file with them moved: [migration](migration.md).
"""


def reference_markdown() -> str:
    """The whole document."""
    request = LoadRequest(environment={"HOME": _HOME}, cwd=Path(_HOME))
    rows = describe_rows(load_settings(request))
    defaults = {row.path: row.value_text.replace(_HOME, "~") for row in rows}
    parts = [_INTRODUCTION, *(_section(section, defaults) for section in SECTIONS)]
    return "\n".join(parts)


def _section(section: Section, defaults: Mapping[str, str]) -> str:
    lines = [
        f"## `{_title(section)}`",
        "",
        f"Stands at {', else '.join(f'`{place}`' for place in section.places)}.",
        "",
        "| key | allowed | default | meaning |",
        "|---|---|---|---|",
        *(_row(key, defaults.get(section.documented(key), "–")) for key in section.keys),
        *_retired(section),
        "",
    ]
    return "\n".join(lines)


def _title(section: Section) -> str:
    return section.name or section.places[0]


def _row(key: Key, default: str) -> str:
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
