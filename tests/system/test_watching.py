"""The real process notices changes by itself, and reports how when it runs out of watches."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway.client import spawn_gateway

pytestmark = pytest.mark.anyio

PATIENCE_S = 60
GATEWAY = (sys.executable, "-m", "gateway", "serve")
LIMITED = 'echo "$2" > "/proc/sys/user/$1" && shift 2 && exec "$@"'


def limited_to(limit: str, count: int) -> tuple[str, ...]:
    """Returns the command of a gateway with a kernel limit of its own, in a user namespace."""
    return ("unshare", "--user", "--map-root-user", "sh", "-c", LIMITED, "sh", limit, str(count), *GATEWAY)  # fmt: skip


@asynccontextmanager
async def started(home, *command: str):
    arguments = [*home.arguments, "--log-level", "warning"]
    async with spawn_gateway(
        arguments, environment=home.environment, command=command or GATEWAY
    ) as client:
        yield client


async def watcher_of(client):
    with anyio.fail_after(PATIENCE_S):
        while (state := (await client.call("status"))["watcher"])["mode"] == "starting":
            await anyio.sleep(0.02)
    return state


async def until_found(client, query):
    with anyio.fail_after(PATIENCE_S):
        while not (await client.call("memory_search", {"query": query}))["results"]:
            await anyio.sleep(0.2)


@pytest.fixture
def by_itself(home):
    """A home whose searches do not look at the disk: changes are noticed without them."""
    sync = {"onSearch": False, "onSessionStart": False, "watchDebounceMs": 50}
    home.configure({"agents": {"defaults": {"memorySearch": {"provider": "none", "sync": sync}}}})
    return home


async def test_a_note_is_found_without_any_search_having_looked_for_it(by_itself):
    async with started(by_itself) as client:
        state = await watcher_of(client)
        assert (state["mode"], state["reason"]) == ("watching", None)
        by_itself.write("memory/new/kestrel.md", "- A kestrel was seen.\n")
        await until_found(client, "kestrel")
        reasons = [one["reason"] for one in (await client.call("status"))["recentSyncs"]]
        assert "watch" in reasons[0]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (limited_to("max_inotify_watches", 1), "max_user_watches"),
        (limited_to("max_inotify_instances", 0), "max_user_instances"),
        (("prlimit", "--nofile=26", *GATEWAY), "ulimit -n"),
    ],
    ids=["watches", "instances", "descriptors"],
)
async def test_without_watches_changes_are_found_by_polling_and_one_line_says_so(
    by_itself, command, named
):
    async with started(by_itself, *command) as client:
        state = await watcher_of(client)
        assert state["mode"] == "polling"
        assert named in state["reason"]
        for number in range(2):
            by_itself.write(f"memory/{number}.md", f"- The kestrel{number} was seen.\n")
            await until_found(client, f"kestrel{number}")
        assert (await client.call("status"))["watcher"]["mode"] == "polling"
    (line,) = client.last_words
    assert json.loads(line)["event"] == "polling for changes"
    assert named in json.loads(line)["reason"]


async def test_watches_that_run_out_later_end_in_polling(by_itself):
    async with started(by_itself, *limited_to("max_inotify_watches", 4)) as client:
        assert (await watcher_of(client))["mode"] == "watching"
        for number in range(4):
            by_itself.write(f"memory/{number}/note.md", f"- The kestrel{number} was seen.\n")
        await until_found(client, "kestrel3")
        with anyio.fail_after(PATIENCE_S):
            while (await watcher_of(client))["mode"] != "polling":
                await anyio.sleep(0.05)
        by_itself.write("memory/3/later.md", "- A buzzard was seen.\n")
        await until_found(client, "buzzard")
