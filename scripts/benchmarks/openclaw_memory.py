"""Compares OpenClaw's own memory and our plugin in its slot, in the real OpenClaw, with the same notes and questions.

Each question is a turn of a conversation of its own, in which a model on loopback asks memory and answers.
The table shows how often the model gets to see the evidence, and what that costs. OpenClaw's own tools are hidden
behind `tool_search` and `tool_call`; the model here knows their names, and so takes the shortest way.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import bpe_openai
from rich.console import Console
from rich.table import Table

from benchmarks.embedding_server import embedding_server
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import CACHE
from benchmarks.questions import Collection, Question, locomo
from benchmarks.running import embedding_with, figures
from benchmarks.scoring import percentile, wilson
from benchmarks.vector_cache import CachedEmbedder
from fakes.openclaw import SETUP, HostError, OpenClaw, RunningHost
from fakes.openclaw_model import FakeModel, ToolCall

_ANSWER: Final = "That is what I found."
_ENCODING: Final = bpe_openai.get_encoding("o200k_base")


@dataclass(eq=False)
class TimedModel(FakeModel):
    """A fake model that remembers when each request came."""

    came: list[float] = field(default_factory=list, init=False)

    def reply(self, body: Any) -> str | ToolCall:
        self.came.append(time.monotonic())
        return super().reply(body)


@dataclass
class Recall:
    seconds: float
    """The time from the call of the tool to the request that contains its result."""
    requests: int
    """The number of requests to the model during the whole turn."""
    tokens: int
    """The size of all that tools gave the model, including what `tool_search` found."""
    found: bool
    """True if the evidence is in it."""
    failed: bool
    """True if the tool said that it could not search, as one that is too slow on a busy machine does."""


def recall(running: RunningHost, model: TimedModel, question: Question, number: int) -> Recall:
    search = ToolCall("memory_search", {"query": question.query})
    hidden = ToolCall("tool_call", {"id": "memory_search", "args": search.arguments})
    before = len(model.asked)
    calls = (
        [search] if _is_direct(model) else [ToolCall("tool_search", {"query": "memory"}), hidden]
    )
    model.script(*calls, _ANSWER)
    answer = running.say(question.query, f"agent:main:question-{number}")
    if answer != _ANSWER:
        raise HostError(f"a turn ended with {answer!r}")
    results = [_text(one["content"]) for one in model.asked[-1].messages if one["role"] == "tool"]
    seen = " ".join(" ".join(_strings(results[-1])).split())
    said = results[-1].replace("\\", "").replace(" ", "")
    return Recall(
        seconds=model.came[-1] - model.came[-2],
        requests=len(model.asked) - before,
        tokens=sum(len(_ENCODING.encode(text)) for text in results),
        found=any(" ".join((one.text or "").split()) in seen for one in question.evidence),
        failed=any(f'"{word}":true' in said for word in ("disabled", "unavailable")),
    )


def _is_direct(model: FakeModel) -> bool:
    """Returns whether the latest request offered the tool itself."""
    return "memory_search" in model.asked[-1].tools


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _strings(value: Any) -> Iterator[str]:
    """Yields all texts of a document, and of documents within its texts."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            yield value
        else:
            yield from _strings(inner) if isinstance(inner, dict | list) else (value,)
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def measure(
    command: str, collection: Collection, search: dict[str, Any], with_plugin: bool
) -> list[Recall]:
    with (
        tempfile.TemporaryDirectory(prefix="memory-gateway-beside-") as root,
        TimedModel(most=10 * len(collection.questions) + 20) as model,
    ):
        host = OpenClaw(command, Path(root), model)
        shutil.copytree(collection.workspace, host.workspace, dirs_exist_ok=True)
        (host.workspace / "questions.json").unlink(missing_ok=True)
        host.configure({"memory": {"search": search}})
        if with_plugin:
            host.install_plugin()
        with host.gateway() as running:
            running.say(
                "Good morning."
            )  # what the first turn of a host loads is no part of a recall
            found = [
                recall(running, model, question, number)
                for number, question in enumerate(collection.questions)
            ]
        if model.refused:
            raise HostError(f"the model refused: {model.refused[0]}")
        return found


def table(rows: dict[str, list[Recall]]) -> Table:
    table = figures(
        "In the real OpenClaw 2026.9.6",
        "| first recall | later, p50 | p95 | requests | tokens, mean | evidence seen | failed",
    )
    for name, recalls in rows.items():
        later = [one.seconds for one in recalls[1:]]
        seen = sum(one.found for one in recalls)
        low, high = wilson(seen, len(recalls))
        table.add_row(
            name,
            _milliseconds(recalls[0].seconds),
            _milliseconds(percentile(later, 0.5)),
            _milliseconds(percentile(later, 0.95)),
            str(recalls[0].requests),
            f"{sum(one.tokens for one in recalls) / len(recalls):.0f}",
            f"{seen} of {len(recalls)} ({low:.0%} to {high:.0%})",
            str(sum(one.failed for one in recalls)),
        )
    return table


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


async def _run(options: argparse.Namespace, command: str) -> None:
    collections = locomo(options.data)
    if not collections:
        raise SystemExit(f"{options.data} has no conv-*/, a workspace with a questions.json.")
    collection = collections[0]
    step = max(1, len(collection.questions) // options.questions)
    collection = collection._replace(questions=collection.questions[::step][: options.questions])
    rows: dict[str, list[Recall]] = {}
    with CachedEmbedder(MiniLM(), CACHE / "vectors.sqlite") as embedder:
        async with embedding_server(embedder) as server:
            hybrid = embedding_with(server) | {"model": "all-minilm-l6-v2"}
            ways = {"keywords": {"provider": "none"}, "the same embedding server": hybrid}
            for name in options.ways:
                for memory, with_plugin in (("OpenClaw's own", False), ("the plugin", True)):
                    rows[f"{memory}, {name}"] = await anyio.to_thread.run_sync(
                        measure, command, collection, ways[name], with_plugin
                    )
                    Console(width=140).print(table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="a directory of LoCoMo conversations as workspaces")
    parser.add_argument("--questions", type=int, default=40)
    ways = ("keywords", "the same embedding server")
    parser.add_argument("--ways", nargs="+", choices=ways, default=list(ways))
    options = parser.parse_args()
    command = subprocess.run([SETUP], capture_output=True, check=True, encoding="utf-8").stdout
    anyio.run(_run, options, command.strip())


if __name__ == "__main__":
    main()
