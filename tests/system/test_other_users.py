"""Another user of the machine: listening where the owner's socket should be, and connecting to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from config.errors import ErrorKind
from fakes.users import IMPOSSIBLE, IMPOSTOR, OTHER, OWNER, WHY_NOT, as_user, give
from gateway.client import RemoteError, spawn_gateway
from gateway.ownership.owner import OwnerLock, OwnerRecord, read_owner
from tests.system.conftest import PATIENCE_S, Home, patient

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(IMPOSSIBLE, reason=WHY_NOT)]

SECRET = "the safe opens with 4711"


class Shared(Home):
    """A home of one user, beside a directory in which everybody may make files, as in /tmp."""

    def __init__(self, root):
        super().__init__(root / "home")
        self.runtime = root / "runtime"
        self.runtime.mkdir()
        self.runtime.chmod(0o1777)
        self.sockets = self.runtime / "memory-gateway"
        self.path = self.sockets / "main.sock"
        self.received = root / "heard"
        self.received.touch()
        os.chown(self.received, OTHER, OTHER)
        self.lock = self.state / "memory/main.sqlite.lock"
        give(self.root, OWNER)

    @property
    def environment(self):
        return {**super().environment, "XDG_RUNTIME_DIR": str(self.runtime)}

    def command_line(self, *arguments):
        gateway = [sys.executable, "-P", "-m", "gateway", arguments[0], *self.arguments]
        return [*as_user(OWNER), *gateway, *arguments[1:]]

    def run(self, *arguments):
        return subprocess.run(
            self.command_line(*arguments), env=self.environment, capture_output=True,
            encoding="utf-8", timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def gateway(self, *arguments):
        return spawn_gateway(
            [*self.arguments, *arguments], environment=self.environment, patience_s=PATIENCE_S,
            command=[*as_user(OWNER), sys.executable, "-P", "-m", "gateway", "serve"],
        )  # fmt: skip

    def announce(self, path=None):
        """Writes the lock file of a gateway that ended abruptly, with the machine."""
        self.lock.parent.mkdir(exist_ok=True)
        record = {
            "pid": 2**22 + 1,
            "workspace": str(self.workspace),
            "socket": str(path or self.path),
        }
        self.lock.write_text(json.dumps(record), encoding="utf-8")
        give(self.state, OWNER)

    @contextmanager
    def impostor(self):
        process = subprocess.Popen(
            [*as_user(OTHER), *IMPOSTOR, self.path, self.received], stdout=subprocess.PIPE
        )
        with process:
            try:
                assert process.stdout.readline() == b"listening\n"
                yield
            finally:
                process.kill()


async def said(gateway, words):
    """Waits for the words on the gateway's standard error, which may come after the answer."""
    with anyio.fail_after(PATIENCE_S):
        while not any(words in line for line in gateway.last_words):
            await anyio.sleep(0.02)


@pytest.fixture
def shared():
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Shared(Path(directory))


def in_a_directory_of_their_own(shared, stack):
    """After a reboot the first process may make a directory in one that is sticky."""
    stack.enter_context(shared.impostor())
    return f"{shared.sockets}: it belongs to user {OTHER}"


def in_a_directory_that_everybody_may_write_to(shared, stack):
    shared.sockets.mkdir()
    os.chown(shared.sockets, OWNER, OWNER)
    shared.sockets.chmod(0o777)
    stack.enter_context(shared.impostor())
    return f"{shared.sockets}: other users can write to it (mode 0777)"


def in_the_place_of_the_owner_s_socket(shared, stack):
    shared.sockets.mkdir()
    os.chown(shared.sockets, OTHER, OTHER)
    stack.enter_context(shared.impostor())
    os.chown(shared.sockets, OWNER, OWNER)
    shared.sockets.chmod(0o755)
    return f"{shared.path}: it belongs to user {OTHER}"


def behind_a_socket_that_seems_to_be_the_owner_s(shared, stack):
    in_the_place_of_the_owner_s_socket(shared, stack)
    os.chown(shared.path, OWNER, OWNER)
    return f"of user {OTHER} listens there"


PLANTED = [
    in_a_directory_of_their_own,
    in_a_directory_that_everybody_may_write_to,
    in_the_place_of_the_owner_s_socket,
    behind_a_socket_that_seems_to_be_the_owner_s,
]


@pytest.fixture(params=PLANTED, ids=lambda one: one.__name__)
def cause(request, shared):
    """Makes another user listen at the owner's place in the lock; yields the cause that must be reported."""
    with ExitStack() as stack:
        reason = request.param(shared, stack)
        shared.announce()
        yield reason


def test_commands_send_nothing_to_another_user_s_socket_and_say_so(shared, cause):
    found = shared.run("search", "boiler", "--json")
    assert json.loads(found.stdout)["results"][0]["snippet"].endswith("every October.")
    assert cause in found.stderr
    written = shared.run("remember", SECRET)
    assert (written.returncode, "None" in written.stdout, cause in written.stderr) == (
        0,
        False,
        True,
    )
    (log,) = (one for one in shared.workspace.glob("memory/*.md") if SECRET in one.read_text())
    assert f"memory/{log.name}:" in written.stdout
    text = shared.run("get", "MEMORY.md")
    assert "Hartmann" in text.stdout and cause in text.stderr
    assert cause in shared.run("index").stderr
    assert shared.received.read_bytes() == b""


def test_status_health_and_doctor_name_the_place_the_cause_and_the_remedy(shared, cause):
    status = json.loads(shared.run("status", "--json").stdout)
    assert any(cause in issue for issue in status["issues"])
    done = shared.run("health", "--json")
    health = json.loads(done.stdout)
    assert (done.returncode, health["status"]) == (1, "degraded")
    assert any(
        cause in reason and "start the gateway again" in reason for reason in health["reasons"]
    )
    doctor = json.loads(shared.run("doctor", "--json").stdout)
    (one,) = [one for one in doctor["findings"] if one["check"] == "owner"]
    assert (one["severity"], cause in one["cause"], bool(one["fix"])) == ("error", True, True)
    for command in ("reload", "metrics"):
        refused = shared.run(command)
        assert (refused.returncode, cause in refused.stderr) == (os.EX_UNAVAILABLE, True)
    assert shared.received.read_bytes() == b""


async def test_a_second_serve_carries_nothing_to_another_user_and_answers_with_the_cause(
    shared, cause
):
    lock = OwnerLock.acquire(shared.lock)  # there is an owner, and another user took its place
    record = read_owner(shared.lock)
    lock.announce(OwnerRecord(pid=os.getpid(), workspace=record.workspace, socket=record.socket))
    async with shared.gateway() as guest:
        with pytest.raises(RemoteError) as refused:
            await guest.call("memory_search", {"query": SECRET}, timeout_s=PATIENCE_S)
        assert refused.value.kind == ErrorKind.INDEX_UNAVAILABLE
        assert cause in refused.value.message and refused.value.remedy
        await said(guest, "cannot take over")
        lock.release()
        found = await patient(guest.call)("memory_search", {"query": "boiler"})
        assert "Hartmann" in found["results"][0]["snippet"]
    assert shared.received.read_bytes() == b""


async def test_a_gateway_makes_its_socket_elsewhere_when_the_place_is_another_user_s(shared):
    with shared.impostor():
        async with shared.gateway() as owner:
            await owner.call("health", timeout_s=PATIENCE_S)
            path = Path(read_owner(shared.lock).socket)
            assert path.parent == shared.state / "run"
            await said(owner, f"belongs to user {OTHER}")
            status = json.loads((await run_sync(shared.run, "status", "--json")).stdout)
            assert status["pid"] == owner.process.pid
    assert shared.received.read_bytes() == b""


KNOCK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(60)
    client.connect(sys.argv[1])
    try:
        client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"memory_get","params":{"path":"MEMORY.md"}}\\n')
        print(client.recv(65536).decode())
    except ConnectionError:
        print()
"""


async def test_a_client_of_another_user_gets_no_byte_wherever_the_socket_is(shared):
    async with shared.gateway() as owner:
        await owner.call("health", timeout_s=PATIENCE_S)
        path = Path(read_owner(shared.lock).socket)
        path.parent.chmod(0o755)
        path.chmod(0o666)

        def knock(uid):
            command = [*as_user(uid), sys.executable, "-c", KNOCK, path]
            return subprocess.run(
                command, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=True
            ).stdout.strip()

        assert await run_sync(knock, OTHER) == ""
        await said(owner, "another user is not served")
        assert "Hartmann" in await run_sync(knock, OWNER)
        assert "Hartmann" in await run_sync(knock, 0)


async def test_root_asks_the_gateway_of_the_user_whose_index_it_is(shared):
    async with shared.gateway() as owner:
        await owner.call("health", timeout_s=PATIENCE_S)
        status = await run_sync(Home.run, shared, "status", "--json")
        assert json.loads(status.stdout)["pid"] == owner.process.pid
        assert status.stderr == ""


def test_root_sends_nothing_to_a_third_user(shared, cause):
    found = Home.run(shared, "search", "boiler", "--json")
    assert "Hartmann" in json.loads(found.stdout)["results"][0]["snippet"]
    assert cause in found.stderr
    assert shared.received.read_bytes() == b""


def test_an_owner_that_does_not_say_where_it_wrote_is_an_error(home):
    """Such an owner of this user is of another release or broken: no place is made up."""
    path = home.root / "run/s"
    received = home.root / "heard"
    with subprocess.Popen([*IMPOSTOR, path, received], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"listening\n"
            path.parent.chmod(0o700)
            lock = home.state / "memory/main.sqlite.lock"
            lock.parent.mkdir()
            record = {"pid": process.pid, "workspace": str(home.workspace), "socket": str(path)}
            lock.write_text(json.dumps(record), encoding="utf-8")
            done = home.run("remember", SECRET)
            status = home.run("status")
        finally:
            process.kill()
    assert (done.returncode, done.stdout) == (os.EX_UNAVAILABLE, "")
    assert f"Process {process.pid}" in done.stderr and "in this release" in done.stderr
    assert (status.returncode, "fault of the program" in status.stderr) == (
        os.EX_UNAVAILABLE,
        False,
    )
