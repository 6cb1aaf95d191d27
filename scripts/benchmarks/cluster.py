"""Checks that gateways of one agent that are killed and stopped keep one index correct and pay for nothing twice.

Starts them as processes over one PostgreSQL, each with its own view of one workspace, edits notes, searches for each
edit through one of the gateways, kills gateways, and stops the one that embeds (SIGSTOP) until its lease is over.
Afterwards the index is compared with a fresh one, and the texts that the vendor embedded are counted.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from backends.builtin.store.leasing import LEASE_S
from benchmarks.qmd_home import DIRECT_CHAT
from benchmarks.running import embedded, embedding_with, home
from fakes import postgres
from fakes.vendors import FakeVendor
from fakes.wire import Seen
from gateway.client import RemoteError, SpawnedGateway, spawn_gateway

VENDOR_S = 0.1
"""The seconds that the vendor takes for an answer."""
AGENT_TABLES = {
    "files": "SELECT source, path, content_hash, chunk_count FROM {0}.files WHERE agent_id = {1}",
    "chunks": "SELECT f.path, c.start, c.identity, c.text FROM {0}.chunks AS c"
    " JOIN {0}.files AS f USING (agent_id, file_id) WHERE c.agent_id = {1}",
    "excerpts": 'SELECT f.path, c.start, x.start, x."end", x.line, x.text_hash FROM {0}.excerpts AS x'
    " JOIN {0}.chunks AS c USING (agent_id, chunk_id) JOIN {0}.files AS f ON f.agent_id = c.agent_id"
    " AND f.file_id = c.file_id WHERE x.agent_id = {1}",
    "words": "SELECT f.path, c.start, p.term, p.body, p.context, p.length FROM {0}.postings AS p"
    " JOIN {0}.chunks AS c USING (agent_id, chunk_id) JOIN {0}.files AS f USING (agent_id, file_id)"
    " WHERE p.agent_id = {1}",
    "counts of words": "SELECT term, chunks FROM {0}.term_counts WHERE agent_id = {1}",
    "vectors": "SELECT DISTINCT e.text_hash, e.vector::text FROM {0}.embeddings AS e"
    " JOIN {0}.excerpts AS x USING (agent_id, text_hash) WHERE e.agent_id = {1}",
}


class Cluster:
    def __init__(
        self, root: Path, database: postgres.Server, vendor: FakeVendor, tasks: TaskGroup
    ) -> None:
        self.root = root
        self.database = database
        self._tasks = tasks
        self.workspace = root / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        rows = database.settings(path=root / "unused")
        self.store = {"driver": "postgres", "url": rows.url.reveal(), "tenant": rows.tenant}
        self._vendor = vendor
        self.counts: Counter[str] = Counter()
        self.events: list[tuple[float, str]] = []
        self.gateways: dict[int, SpawnedGateway] = {}
        self._ends: dict[int, tuple[anyio.Event, anyio.Event]] = {}
        """For each gateway, the event that asks it to end and the event that says it has ended."""

    async def start(self, number: int) -> SpawnedGateway:
        key = f"{self._vendor.key} {number}.{self.counts['kills']}"
        search = {
            **embedding_with(self._vendor, apiKey=key),
            "sync": {"searchBudgetMs": 20_000},
            "store": {**self.store, "view": f"host-{number}"},
        }
        arguments = home(self.root / f"state-{number}", self.workspace, "info", **search)
        wanted, done = self._ends[number] = anyio.Event(), anyio.Event()

        async def live(*, task_status: TaskStatus[SpawnedGateway]) -> None:
            spawned = spawn_gateway(arguments, patience_s=60)
            async with spawned as gateway:
                task_status.started(gateway)
                await wanted.wait()
            done.set()

        self.gateways[number] = await self._tasks.start(live)
        return self.gateways[number]

    async def end(self, number: int) -> None:
        wanted, done = self._ends.pop(number)
        wanted.set()
        await done.wait()
        del self.gateways[number]

    async def kill(self, number: int) -> None:
        """Kills the gateway, as if its host lost power; another process starts in its place."""
        self.note(f"{number} is killed")
        self.gateways[number].process.kill()
        await self.end(number)
        self.counts["kills"] += 1
        await self.start(number)

    async def leader(self) -> int | None:
        for number, gateway in self.gateways.items():
            status = await gateway.call("status", {}, timeout_s=60)
            if status["details"]["store"]["role"] == "leader":
                return number
        return None

    async def stop_leader(self, chance: random.Random) -> None:
        """Stops the leader for longer than its lease, while it waits for vectors."""
        self._vendor.delay_s = 3.0
        await self.write(chance)
        number = None
        with anyio.move_on_after(30):
            while (number := await self.leader()) is None:  # noqa: ASYNC110 - of another process
                await anyio.sleep(0.1)
        self._vendor.delay_s = VENDOR_S
        if number is None:
            return
        stopped = self.gateways[number]
        token = self.token()
        stopped.process.send_signal(signal.SIGSTOP)
        self.note(f"{number} is stopped")
        try:
            ends = time.monotonic() + LEASE_S + 5
            while time.monotonic() < ends:
                await self.edit(chance, without=number)
                await anyio.sleep(0.5)
            is_replaced = self.token() != token
        finally:
            stopped.process.send_signal(signal.SIGCONT)
            self.note(f"{number} goes on")
        self.counts["leaders stopped"] += 1
        self.counts["leaders replaced meanwhile"] += is_replaced
        with anyio.move_on_after(20):
            while not any("passed on" in line for line in stopped.last_words):  # noqa: ASYNC110 - as above
                await anyio.sleep(0.1)
            self.counts["publications of theirs refused"] += is_replaced

    def note(self, event: str) -> None:
        self.events.append((time.monotonic(), event))

    def token(self) -> int:
        """Returns the token of the lease, which goes up each time that another gateway takes over the work."""
        ((token,),) = self.database.sql(
            f"SELECT token FROM memory_gateway.leases WHERE work = 'embedding' AND agent_id = {self.agent}",
            database=self.name,
        )
        return int(token)

    @property
    def name(self) -> str:
        return self.store["url"].rpartition("@/")[2].partition("?")[0]

    @property
    def agent(self) -> int:
        tenant = self.store["tenant"]
        query = f"SELECT agent_id FROM memory_gateway.agents WHERE tenant = '{tenant}'"
        ((agent,),) = self.database.sql(query, database=self.name)
        return int(agent)

    def content(self) -> dict[str, list[tuple[Any, ...]]]:
        """Returns all that the database contains of the agent, except what depends on the order of events."""
        return {
            title: sorted(
                self.database.sql(query.format("memory_gateway", self.agent), database=self.name)
            )
            for title, query in AGENT_TABLES.items()
        }

    async def edit(self, chance: random.Random, *, without: int | None = None) -> None:
        """Writes a note, or removes one."""
        path = self._note(chance)
        if path.exists() and chance.random() < 0.1:
            path.unlink()
            self.counts["removed"] += 1
        else:
            await self.write(chance, without=without)

    def _note(self, chance: random.Random) -> Path:
        return self.workspace / "memory" / f"note-{chance.randrange(60):02}.md"

    async def write(self, chance: random.Random, *, without: int | None = None) -> None:
        """Writes a note that has texts to be embedded; counts a search that does not find it."""
        path = self._note(chance)
        word = f"zeta{chance.randrange(10**9)}"
        lines = [f"- Visit {word} of the boiler, entry {n} {word}x{n}." for n in range(6)]
        text = "\n".join([*lines, ""])
        path.write_text(
            (path.read_text() if chance.random() < 0.3 and path.exists() else "") + text
        )
        gateway = self.gateways[chance.choice([one for one in self.gateways if one != without])]
        found = await gateway.call(
            "memory_search", {"query": word, "sessionKey": DIRECT_CHAT}, timeout_s=120
        )
        self.counts["searches"] += 1
        if not any(hit["path"].endswith(path.name) for hit in found["results"]):
            self.counts["own writes not found"] += 1

    async def close(self) -> None:
        for number in list(self.gateways):
            await self.end(number)


async def settled(gateway: SpawnedGateway) -> None:
    """Waits until the index is up to date with the disk and every text has its vector."""
    await gateway.call("sync", {}, timeout_s=600)
    await embedded(gateway, 600)


def histories(requests: list[Seen], events: list[tuple[float, str]]) -> Iterator[str]:
    """Yields what happened to each text that was embedded more than once."""
    sent: dict[str, list[Seen]] = defaultdict(list)
    for seen in requests:
        for text in set(seen.texts):
            if is_note(text):
                sent[text].append(seen)
    for text, seens in sent.items():
        if sum(seen.answered == 200 for seen in seens) < 2:
            continue
        begins = seens[0].arrived_at
        of_text = [
            (
                seen.arrived_at,
                f"sent by {seen.headers['authorization'].split()[-1]} with {len(seen.texts)}, "
                + (
                    f"answered after {seen.answered_at - seen.arrived_at:.2f}"
                    if seen.answered
                    else "hung up"
                ),
            )
            for seen in seens
        ]
        around = [one for one in events if begins - 1 <= one[0] <= seens[-1].arrived_at + 1]
        lines = sorted([*of_text, *around])
        yield "\n".join(
            [text.split("\n")[0][:40], *(f"    {at - begins:6.2f} s {what}" for at, what in lines)]
        )


def is_note(text: str) -> bool:
    return "Visit zeta" in text and "\n" in text


async def run(options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mg-cluster-")))
        database = stack.enter_context(postgres.running())
        vendor = stack.enter_context(FakeVendor("openai", keys_may_be_longer=True))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        vendor.delay_s = VENDOR_S
        cluster = Cluster(root, database, vendor, tasks)
        for number in range(options.gateways):
            await cluster.start(number)
        ends = time.monotonic() + 60 * options.minutes
        step = 0
        while time.monotonic() < ends:
            step += 1
            await cluster.edit(chance)
            if step % 25 == 0:
                await cluster.kill(chance.randrange(options.gateways))
            if step % 60 == 30:
                await cluster.stop_leader(chance)
        for gateway in cluster.gateways.values():
            await settled(gateway)
        await cluster.close()
        texts = Counter(filter(is_note, vendor.embedded()))
        history = list(vendor.requests)
        shared = cluster.content()
        cluster.store["tenant"] = "fresh"
        await settled(await cluster.start(99))
        await cluster.close()
        fresh = cluster.content()
    twice = sum(count > 1 for count in texts.values())
    print(f"{options.gateways} gateways, {options.minutes:g} minutes, seed {options.seed}")
    for name, count in sorted(cluster.counts.items()):
        print(f"  {name}: {count:,}")
    print(f"  texts embedded: {len(texts):,}, of those more than once: {twice:,}")
    for lines in histories(history, cluster.events):
        print(f"  {lines}")
    for title in AGENT_TABLES:
        verdict = "equal" if shared[title] == fresh[title] else "DIFFERENT"
        print(f"  {title}: {len(shared[title]):,} rows, {verdict} to a fresh index")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--gateways", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    try:
        anyio.run(run, parser.parse_args())
    except RemoteError as error:
        raise SystemExit(f"A gateway refused: {error}") from error


if __name__ == "__main__":
    main()
