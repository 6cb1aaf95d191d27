"""The real process without the features of Linux: no inotify, no /proc, and no kernel's word on the peer of a
socket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
SYNC = {"onSearch": False, "onSessionStart": False}


@pytest.fixture
def portable(make_home, monkeypatch):
    """A home whose searches do not look at the disk; its path is short enough for a socket."""
    monkeypatch.setenv("MEMORY_GATEWAY_PORTABLE", "1")
    with TemporaryDirectory(dir="/tmp") as short:
        home = make_home(Path(short, "home"))
        home.configure(
            {"agents": {"defaults": {"memorySearch": {"provider": "none", "sync": SYNC}}}}
        )
        yield home


async def test_changes_are_noticed_by_looking_and_commands_and_second_processes_find_the_owner(
    portable,
):
    async with portable.gateway() as owner, portable.gateway() as second:
        with anyio.fail_after(PATIENCE_S):
            while (state := (await owner.call("status"))["watcher"])["mode"] == "starting":
                await anyio.sleep(0.02)
            assert (state["mode"], state["reason"]) == ("polling", "this system has no inotify")
            portable.write("memory/kestrel.md", "- A kestrel was seen.\n")
            while not (await second.call("memory_search", {"query": "kestrel"}))["results"]:
                await anyio.sleep(0.2)
        read = await second.call("memory_get", {"path": "memory/kestrel.md"})
        assert read["text"] == "- A kestrel was seen.\n"
        done = await anyio.to_thread.run_sync(portable.run, "status", "--json")
        assert json.loads(done.stdout)["watcher"]["mode"] == "polling"


@pytest.mark.parametrize(
    ("variables", "taken"), [({}, "long"), ({"MEMORY_GATEWAY_PORTABLE": "1"}, "short")]
)
def test_a_directory_that_is_too_long_for_an_address_is_left_for_another(
    tmp_path, variables, taken
):
    """Linux reaches it by a descriptor below /proc."""
    asked = (
        "import sys; from pathlib import Path; from gateway.ownership.sockets import listen_somewhere;"
        "print(listen_somewhere(map(Path, sys.argv[1:])).path)"
    )
    with TemporaryDirectory(dir="/tmp") as short:
        places = {"long": str(tmp_path / ("long-" * 30) / "s"), "short": f"{short}/s"}
        done = subprocess.run(
            [sys.executable, "-c", asked, *places.values()],
            env={"PATH": os.environ["PATH"]} | variables, cwd=ROOT, capture_output=True, encoding="utf-8", check=True,
        )  # fmt: skip
    assert done.stdout.split()[-1] == places[taken]


def test_nothing_else_asks_for_linux():
    """This shows that the switch covers all of it."""
    found = subprocess.run(
        ["git", "grep", "-lE", "[\"']/proc|sys[.]platform [!=]= .linux",
         "--", "config", "providers", "backends", "gateway", "memory_gateway"],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert found.stdout.split() == ["config/runtime/__init__.py"]
