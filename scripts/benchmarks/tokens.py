"""Counts the tokens of the tools' answers over MCP, of the same answers as JSON, and of the list of tools.

The direct methods answer with JSON; a client that gives a model both forms pays for both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import bpe_openai

from gateway.client import spawn_gateway
from gateway.mcp.mcp_methods import tool_list

ROOT: Final = Path(__file__).resolve().parents[2]
QUESTIONS: Final = (
    "boiler pressure",
    "who services the boiler?",
    "a828e60",
    "What did we decide about the server move?",
    "birthday",
    "when is the next appointment",
    "zzz nothing of the kind",
)
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

Count = Callable[[str], int]


async def measure(workspace: Path, questions: tuple[str, ...], count: Count) -> None:
    with tempfile.TemporaryDirectory() as state:
        arguments = ["--workspace", str(workspace), "--state-dir", state]
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=300)
            totals = [0, 0]
            for question in questions:
                cost = await _compare(client, "memory_search", {"query": question}, count)
                totals = [a + b for a, b in zip(totals, cost, strict=True)]
            _print("all searches", totals)
            for path in ("MEMORY.md", "memory/absent.md"):
                await _compare(client, "memory_get", {"path": path}, count)
    for tool in tool_list(appends=True):
        shown = {key: tool[key] for key in ("name", "description", "inputSchema")}
        print(f"{tool['name']:40} {count(json.dumps(shown)):6} as a client shows it to a model")


async def _compare(client: Any, name: str, arguments: dict[str, Any], count: Count) -> list[int]:
    plain = await client.call(name, arguments)
    call = {"name": name, "arguments": arguments, "_meta": _META}
    by_mcp = await client.call("tools/call", call)
    (content,) = by_mcp["content"]
    as_json = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    cost = [count(as_json), count(content["text"])]
    _print(next(iter(arguments.values())), cost)
    return cost


def _print(name: str, cost: list[int]) -> None:
    before, after = cost
    print(f"{name[:40]:40} {before:6} JSON {after:6} text  {after / before - 1:+.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoding", default="o200k_base")
    parser.add_argument("--workspace", type=Path, default=ROOT / "gateway/sample/workspace")
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    given = parser.parse_args()
    encoding = bpe_openai.get_encoding(given.encoding)
    anyio.run(
        measure, given.workspace, tuple(given.questions), lambda text: len(encoding.encode(text))
    )


if __name__ == "__main__":
    main()
