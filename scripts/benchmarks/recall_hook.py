"""Measures what `recall` adds to prompts, and what that costs.

With `--families`: the share of RealMem's prompts (dev), and of the questions of two other families, that get some
evidence within 400 tokens, and how much of the text is from sessions with evidence; the share of prompts that get
anything although they need nothing or are about another family's notes. Without: what a hook beside a running gateway
takes in instructions (valgrind), and what the gateway takes with `--chunks` chunks.
"""

# ruff: noqa: ASYNC110, ASYNC240
# Nothing else runs in this process.
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.minilm import MiniLM
from benchmarks.notes import NoteWriter
from benchmarks.questions import Collection, Question, conversations
from benchmarks.recall import SYSTEMS
from benchmarks.running import configured, embedded, figures, timed
from benchmarks.scoring import flat, percentile, session_of, wanted
from benchmarks.start import instructions
from gateway.client import spawn_gateway

ROOT: Final = Path(__file__).resolve().parents[2]
NEEDLESS: Final = ROOT / "tests/data/prompts_without_need.json"
_PASSAGE: Final = re.compile(r"<passage [^>]*>\n(.*?)\n</passage>", re.DOTALL)
_TOKENS: Final = 400
_BULLETS: Final = 100
_CHUNKS_A_NOTE: Final = 13
"""The approximate chunks of a note with `_BULLETS` bullets; the table says how many there were."""
_PROMPTS: Final = 300


class Recalled(NamedTuple):
    question: Question | None
    result: dict[str, Any]
    ms: float

    @property
    def passages(self) -> list[tuple[str, int, int, str]]:
        texts = _PASSAGE.findall(self.result.get("text", ""))
        notes = self.result.get("notes", [])
        return [
            (note["path"], note["startLine"], note["endLine"], text)
            for note, text in zip(notes, texts, strict=True)
        ]


async def recall_all(
    collection: Collection,
    prompts: Sequence[tuple[str, Question | None]],
    system: str,
    server: EmbeddingServer,
    **more: Any,
) -> list[Recalled]:
    """Recalls for each prompt, in a conversation of its own."""
    with tempfile.TemporaryDirectory() as state:
        settings = SYSTEMS[system].settings(server)
        arguments = configured(Path(state), collection.workspace, settings, "warning")
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=600)
            if SYSTEMS[system].model:
                await embedded(client)
            recalled = []
            for number, (prompt, question) in enumerate(prompts):
                params = {"prompt": prompt, "sessionKey": f"agent:main:{number}", **more}
                if question is not None and question.before:
                    params["exclude"] = list(_later(collection, question.before))
                result, ms = await timed(client.call("recall", params, timeout_s=60))
                recalled.append(Recalled(question, result, ms))
            return recalled


def _later(collection: Collection, before: str) -> Iterator[str]:
    """Yields notes of that day and later: `recall` itself knows no dates, and accepts few patterns."""
    days = [path.stem for path in (collection.workspace / "memory").glob("*.md")]
    yield from (f"memory/{day}.md" for day in days if day >= before and day[:7] == before[:7])
    yield from {f"memory/{day[:7]}-*.md": None for day in days if day[:7] > before[:7]}


def shows_gold(recalled: Recalled) -> bool:
    assert recalled.question is not None
    texts = {(path, flat(text)) for path, _, _, text in recalled.passages}
    return any(
        path == one.path and wanted(one.text) in text
        for one in recalled.question.evidence
        for path, text in texts
    )


def gold_share(recalled: Sequence[Recalled], workspace: Path) -> tuple[int, int]:
    """Returns the recalled characters, and those from sessions that contain evidence (gold)."""
    all_chars = of_gold = 0
    for one in recalled:
        assert one.question is not None
        gold = {
            session_of(workspace / each.path, each.first_line) for each in one.question.evidence
        }
        for path, first, last, text in one.passages:
            sessions = {session_of(workspace / path, line) for line in range(first, last + 1)}
            all_chars += len(text)
            of_gold += len(text) if sessions & gold else 0
    return all_chars, of_gold


def needless() -> list[str]:
    return [one for kind in json.loads(NEEDLESS.read_text("utf-8")).values() for one in kind]


async def gold_shown(
    collections: Sequence[Collection], system: str, server: EmbeddingServer, **more: Any
) -> list[bool]:
    """Returns whether each question gets some evidence; recall was not tuned on these questions alone."""
    found = []
    for collection in collections:
        prompts = [(one.query, one) for one in collection.questions if one.evidence]
        recalled = await recall_all(collection, prompts, system, server, **more)
        found += map(shows_gold, recalled)
    return found


async def quality(
    directory: Path, system: str, keep: Path | None, min_score: float | None
) -> Table:
    more = {} if min_score is None else {"minScore": min_score}
    async with embedding_server(MiniLM()) as server:
        realmem = conversations(directory / "realmem")
        realtalk = conversations(directory / "realtalk", None)
        shown = answered = chars = of_gold = 0
        tokens: list[float] = []
        rows = []
        for collection in realmem:
            prompts = [(one.query, one) for one in collection.questions if one.evidence]
            recalled = await recall_all(collection, prompts, system, server, **more)
            answered += len(recalled)
            shown += sum(map(shows_gold, recalled))
            written, gold = gold_share(recalled, collection.workspace)
            chars, of_gold = chars + written, of_gold + gold
            tokens += [one.result["tokens"] for one in recalled]
            rows += [(one, collection) for one in recalled]
        junk = [(one, None) for one in needless()]
        got_junk = await recall_all(realmem[0], junk, system, server, **more)
        foreign = [(one.query, None) for each in realmem for one in each.questions[::5]]
        got_foreign = await recall_all(realtalk[0], foreign, system, server, **more)
        others = [(one.query, None) for one in realtalk[0].questions]
        got_others = await recall_all(realmem[0], others, system, server, **more)
        chats = {
            name: await gold_shown(conversations(directory / name, None), system, server, **more)
            for name in ("realtalk", "beam")
        }
    if keep:
        data = [{"kind": "realmem", "gold": shows_gold(one), **one.result} for one, _ in rows]
        for kind, got in (("junk", got_junk), ("foreign", got_foreign), ("others", got_others)):
            data += [{"kind": kind, **one.result} for one in got]
        keep.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    table = figures(f"recall, {SYSTEMS[system].name}", "what | share | of")
    table.add_row("RealMem prompts that are shown evidence", _share(shown, answered), f"{answered}")
    table.add_row(
        "shown characters from a session with evidence", _share(of_gold, chars), f"{chars:,}"
    )
    table.add_row("tokens a prompt, mean", f"{sum(tokens) / len(tokens):.0f}", f"{_TOKENS}")
    for name, found in chats.items():
        table.add_row(
            f"{name}: questions that are shown evidence",
            _share(sum(found), len(found)),
            f"{len(found)}",
        )
    for name, got in (
        ("prompts that need nothing, shown anything", got_junk),
        ("RealMem's prompts over REALTALK, shown anything", got_foreign),
        ("REALTALK's questions over RealMem, shown anything", got_others),
    ):
        table.add_row(
            name, _share(sum(bool(one.result["tokens"]) for one in got), len(got)), f"{len(got)}"
        )
    return table


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.3f}"


async def speed(chunks: int) -> Table:
    """Measures the hook in instructions, and the gateway's answer in milliseconds."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        environment = {**os.environ, "HOME": place, "XDG_CACHE_HOME": f"{place}/cache"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        writer = NoteWriter()
        writer.workspace(root / "workspace", max(1, chunks // _CHUNKS_A_NOTE), _BULLETS)
        words = [writer.sentence(40) for _ in range(_PROMPTS)]
        arguments = ["--workspace", f"{place}/workspace", "--state-dir", f"{place}/state"]
        async with spawn_gateway(arguments, environment=environment) as client:
            await client.call("sync", {}, timeout_s=1200)
            indexed = (await client.call("status", {}, timeout_s=60))["chunks"]
            times = []
            numbers = count()
            for prompt in words:
                asked = {"prompt": prompt, "sessionKey": f"agent:main:{next(numbers)}"}
                times.append((await timed(client.call("recall", asked, timeout_s=60)))[1])
            code = "import sys; from memory_gateway import main; sys.exit(main())"
            hook = [sys.executable, "-c", code, "recall", "--hook", "claude-code", *arguments]
            event = json.dumps(
                {"hook_event_name": "UserPromptSubmit", "session_id": "x", "prompt": words[0]}
            ).encode()
            environment["PYTHONPATH"] = str(ROOT)
            with anyio.fail_after(60):
                while not await anyio.to_thread.run_sync(_asked, hook, event, environment):
                    await anyio.sleep(0.2)
            bare = instructions([sys.executable, "-c", "pass"], environment=environment)
            ours = instructions(hook, event=event, environment=environment)
    table = figures(f"recall beside a running gateway, {indexed:,} chunks, words", "what | value")
    table.add_row("instructions of a bare interpreter", f"{bare / 1e6:.1f} M")
    table.add_row("instructions of the hook", f"{ours / 1e6:.1f} M ({ours / bare:.2f} times)")
    table.add_row(
        "the gateway's answer, median and p95",
        f"{percentile(times, 0.5):.1f} / {percentile(times, 0.95):.1f} ms",
    )
    return table


def _asked(hook: Sequence[str], event: bytes, environment: dict[str, str]) -> bool:
    """Runs the hook; returns whether a route to the gateway is known by now."""
    subprocess.run(hook, input=event, env=environment, capture_output=True, check=True)
    return any(one.suffix == "" for one in Path(environment["XDG_CACHE_HOME"]).rglob("hooks/*"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", type=Path, help="holds realmem, realtalk and beam")
    parser.add_argument("--system", default="keyword", choices=["keyword", "minilm"])
    parser.add_argument("--keep", type=Path, help="what was shown for each prompt, as JSON")
    parser.add_argument("--min-score", type=float, help="instead of what recall takes")
    parser.add_argument("--chunks", type=int, default=10_000)
    given = parser.parse_args()
    console = Console(width=110)
    if given.families:
        console.print(anyio.run(quality, given.families, given.system, given.keep, given.min_score))
    else:
        console.print(anyio.run(speed, given.chunks))


if __name__ == "__main__":
    main()
