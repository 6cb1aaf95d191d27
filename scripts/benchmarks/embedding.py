"""Counts the requests that a first index sends to a host, beside the fewest that the host's limits allow.

Runs the real gateway on copies of the workspaces, against a loopback host that speaks OpenAI's wire
format with limits of its own and counts everything it is asked.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.running import embedded, embedding_with, figures, home
from fakes.vendors import FakeVendor
from gateway.client import spawn_gateway


class Limits(NamedTuple):
    """The limits of a host for one request."""

    items: int | None = None
    tokens: int | None = None
    named: bool = True
    """True if a refusal says what would be accepted."""

    def __str__(self) -> str:
        size = f"{self.items} items" if self.items else f"{self.tokens} tokens"
        return size if self.named else f"{size}, unnamed"

    def fewest(self, texts: list[str]) -> int:
        """Returns the least number of requests that any client needs."""
        tokens = sum(map(_tokens, texts))
        by_items = math.ceil(len(texts) / self.items) if self.items else 1
        return max(by_items, math.ceil(tokens / self.tokens) if self.tokens else 1)


HOSTS = (
    Limits(items=512),
    Limits(items=64),
    Limits(items=64, named=False),
    Limits(items=10),
    Limits(items=1),
    Limits(tokens=20_000),
    Limits(tokens=8_000),
)


@contextmanager
def together(workspaces: list[Path]) -> Iterator[Path]:
    """Makes one workspace with the notes of all."""
    with tempfile.TemporaryDirectory() as root:
        everything = Path(root) / "together"
        for workspace in workspaces:
            shutil.copytree(workspace, everything / "memory" / workspace.name)
        yield everything


async def count_requests(workspace: Path, limits: Limits, table: Table) -> None:
    host = FakeVendor(
        "openai", max_items=limits.items, max_tokens=limits.tokens, names_limit=limits.named
    )
    with tempfile.TemporaryDirectory() as root, host:
        copy = Path(root) / "workspace"
        shutil.copytree(workspace, copy)
        async with spawn_gateway(
            home(Path(root) / "state", copy, **embedding_with(host))
        ) as client:
            await client.call("sync", {}, timeout_s=600)
            await embedded(client)
        texts = host.embedded()
        sent, fewest = len(host.requests), limits.fewest(texts)
        refused = sum(seen.answered != 200 for seen in host.requests)
    row = (len(texts), sum(map(_tokens, texts)), fewest, sent, refused)
    table.add_row(workspace.name, str(limits), *map(str, row), f"{sent / fewest:.2f}")


def _tokens(text: str) -> int:
    """Counts tokens as the host does."""
    return len(text) // 4 + 1


async def measure(workspaces: list[Path]) -> Table:
    table = figures(
        "Requests of a first index",
        "workspace | host's limit | texts | tokens | fewest | sent | refused | ratio",
    )
    with together(workspaces) as everything:
        for workspace in (*workspaces, everything):
            for limits in HOSTS:
                await count_requests(workspace, limits, table)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspaces", nargs="+", type=Path)
    workspaces = [workspace.resolve() for workspace in parser.parse_args().workspaces]
    Console(width=120).print(anyio.run(measure, workspaces))


if __name__ == "__main__":
    main()
