"""Files and directories belong to their owner alone, whatever the umask of the parent process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

WAIT_S = 60


def talk(home, umask, *requests):
    command = [sys.executable, "-m", "gateway", "serve", *home.arguments]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    with subprocess.Popen(
        command, env=home.environment | {"XDG_RUNTIME_DIR": str(home.root / "run/user")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        encoding="utf-8", umask=umask,
    ) as process:  # fmt: skip
        for line in lines:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            while '"id":' not in answer:
                answer = process.stdout.readline()
            assert '"result":' in answer
        yield from sorted(home.root.rglob("*"))
        process.stdin.close()
        process.wait(WAIT_S)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nothing_that_is_made_is_open_to_others(home, umask):
    home.state = home.root / "some/where/state"
    home.configure({"memory": {"append": {"enabled": True}}})
    (home.workspace / "memory").rename(home.workspace / "notes")
    before = set(home.root.rglob("*"))
    main = {"sessionKey": "agent:main:main"}
    found = talk(
        home, umask,
        ("initialize", main), ("sync", {}), ("memory_flush_done", main),
        ("memory_append", {"text": "- The kettle is descaled."}),
    )  # fmt: skip
    modes = {
        str(path.relative_to(home.root)): stat.S_IMODE(path.lstat().st_mode)
        for path in found
        if path not in before
    }
    notes = {name: mode for name, mode in modes.items() if name.startswith("workspace/")}
    private = {name: mode for name, mode in modes.items() if name not in notes}
    assert any(name.endswith(".sock") for name in private)
    assert any(name.endswith(".sqlite-wal") for name in private)
    assert any(name.endswith("flushes.json") for name in private)
    assert {name for name, mode in private.items() if mode & 0o077} == set()
    assert len(notes) == 2
    assert {name for name, mode in notes.items() if mode & 0o022} == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to somebody else")
def test_a_directory_for_sockets_that_is_somebody_elses_is_not_used(home):
    theirs = home.root / "run/user/memory-gateway"
    theirs.mkdir(parents=True)
    os.chown(theirs, 65534, 65534)
    found = list(talk(home, 0o022, ("initialize", {}), ("status", {})))
    assert list(theirs.iterdir()) == []
    assert [path.parent for path in found if path.suffix == ".sock"] == [home.state / "run"]
