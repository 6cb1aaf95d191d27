"""`memory-gateway recall --hook` as clients run it: it answers at once or not at all, with any state of the gateway."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import apsw
import pytest

from fakes import hung_disk
from fakes.hung_disk import HungDisk
from fakes.staying import end_staying, staying
from gateway import hook
from gateway.ownership.owner import read_owner

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "What does commit a828e60 fix?"
PROMISED_S = 0.3
PATIENCE_S = 60


class Hook:
    """One client's hook on a home."""

    def __init__(self, home, client="claude-code", arguments=None):
        self.home, self.client = home, client
        self.arguments = home.arguments if arguments is None else arguments
        self.environment = {**home.environment, "XDG_CACHE_HOME": str(home.root / "cache")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE")

    def start(self, stdin=subprocess.PIPE, **environment):
        command = [sys.executable, "-m", "gateway", "recall", "--hook", self.client]
        return subprocess.Popen(
            [*command, *self.arguments], env=self.environment | environment,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(
        self, prompt=PROMPT, *, name="UserPromptSubmit", session="s-1", raw=None, said="", **more
    ):
        event = {"hook_event_name": name, "session_id": session, "prompt": prompt, **more}
        process = self.start()
        written = json.dumps(event, indent=1).encode() if raw is None else raw
        out, err = process.communicate(written, timeout=PATIENCE_S)
        assert (process.returncode, err.decode()) == (0, said)
        if not out:
            return None
        return json.loads(out)["hookSpecificOutput"]["additionalContext"]

    def until_told(self, prompt=PROMPT, **more):
        """Returns the first answer with text: a gateway that was just started answers soon."""
        deadline = time.monotonic() + PATIENCE_S
        number = 0
        while (text := self.run(prompt, session=f"try-{number}", **more)) is None:
            assert time.monotonic() < deadline
            number += 1
        return text

    @property
    def lock(self) -> Path:
        return next(self.home.state.glob("memory/*.lock"))

    def misses(self, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", self.environment["XDG_CACHE_HOME"])
        return hook.misses()


@pytest.fixture
def client(home):
    made = Hook(home)
    try:
        yield made
    finally:
        end_staying(home.root)


def owner_of(client):
    client.home.until(lambda: list(client.home.state.glob("memory/*.lock")) != [])
    client.home.until(lambda: read_owner(client.lock) is not None)
    return read_owner(client.lock).pid


def test_where_no_gateway_runs_one_is_started_that_stays_and_then_it_answers(client):
    client.run()
    assert "a828e60" in client.until_told()
    pid = owner_of(client)
    assert os.getpgid(pid) == pid
    assert client.run(session="s-9") is not None
    assert read_owner(client.lock).pid == pid


def test_one_that_was_started_ends_once_its_index_was_deleted_and_makes_none_anew(client, home):
    client.until_told()
    directory = client.lock.parent
    shutil.rmtree(directory)
    home.write("MEMORY.md", "- The kettle is descaled every month.\n")
    home.until(lambda: staying(home.root) == [])
    assert not directory.exists()


async def test_a_gateway_that_runs_already_is_asked(client, home):
    async with home.gateway() as gateway:
        await gateway.call("sync")
        text = await anyio.to_thread.run_sync(client.until_told)
        assert "server.md" in text
        assert read_owner(client.lock).pid == gateway.process.pid


def test_a_conversation_is_told_once_and_again_when_it_is_compacted(client):
    client.until_told()
    assert client.run(session="s-2") is not None
    assert client.run(session="s-2") is None
    assert client.run("thanks!", session="s-2") is None
    started = client.run(name="SessionStart", session="s-2", source="compact")
    assert started is None or "a828e60" not in started
    assert client.run(session="s-2") is not None


def test_a_conversation_begins_with_what_session_start_loads(client, home):
    home.write("MEMORY.md", "- The kettle is descaled every month.\n")
    client.until_told()
    assert "kettle" in client.run(name="SessionStart", session="s-3", source="startup")
    # The plugin's hook runs beside the one of `connect`.
    assert client.run(name="SessionStart", session="s-3", source="startup") is None
    assert client.run("Is the kettle descaled every month?", session="s-3") is None
    assert client.run(name="SessionStart", session="s-4", source="resume") is None


NO_JSON = "The event is no JSON that can be read."
NO_OBJECT = "The event is no JSON object, as each event of a client is."


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        *((raw, NO_JSON) for raw in (b"{", b"\xff\xfe", b"{}" * 9)),
        *((raw, NO_OBJECT) for raw in (b"", b"null", b"[]", b'"a\\"b"')),
    ],
)
def test_what_is_no_event_is_answered_by_nothing(client, raw, said):
    client.until_told()
    assert client.run(raw=raw, said=f"memory-gateway: {said}\n") is None


def test_an_event_without_its_name_is_told_to_whoever_wrote_it_and_to_no_model(client, monkeypatch):
    client.until_told()
    before = client.misses(monkeypatch)["broken"]
    said = "memory-gateway: The event has no hook_event_name, which claude-code gives to each.\n"
    assert client.run(raw=json.dumps({"prompt": PROMPT}).encode(), said=said) is None
    assert client.misses(monkeypatch)["broken"] == before + 1


def test_who_switched_memory_off_is_told_nothing_and_no_gateway_stays(client, home, monkeypatch):
    home.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    client.run()
    route = Path(client.environment["XDG_CACHE_HOME"], "memory-gateway/hooks")
    home.until(lambda: any(one.suffix == "" for one in route.glob("*")))
    before = client.misses(monkeypatch)
    assert client.run() is None
    assert client.misses(monkeypatch) == before
    assert list(home.state.glob("memory/*.lock")) == []


def test_another_configuration_is_another_route(client, home):
    client.until_told()
    os.kill(owner_of(client), signal.SIGTERM)
    home.until(lambda: read_owner(client.lock) is None)
    elsewhere = home.root / "elsewhere.sqlite"
    store = {"path": str(elsewhere)}
    home.configure({"agents": {"defaults": {"memorySearch": {"store": store}}}})
    for mark in Path(client.environment["XDG_CACHE_HOME"]).rglob("*.started"):
        mark.unlink()
    client.until_told()
    home.until(elsewhere.exists)


def answers(path):
    if (connection := hook.connect(str(path))) is not None:
        connection.close()
    return connection is not None


def test_a_folder_that_setup_names_later_is_asked_from_then_on(home):
    """A plugin's hook names no memory, and may run before there is any."""
    client = Hook(home, arguments=())
    cache = Path(client.environment["XDG_CACHE_HOME"], "memory-gateway/hooks")
    try:
        assert client.run() is None
        home.until(lambda: any(map(answers, home.root.rglob("*.sock"))))
        own = home.root / ".config/memory-gateway/config.json5"
        own.parent.mkdir(parents=True)
        notes = {"folders": {"notes": str(home.workspace)}, "default": "notes"}
        own.write_text(json.dumps({"notes": notes}), encoding="utf-8")
        for mark in cache.glob("*.started"):
            mark.unlink()
        assert "a828e60" in client.until_told()
    finally:
        for owner in map(read_owner, home.root.rglob("*.lock")):
            if owner is not None:
                os.kill(owner.pid, signal.SIGKILL)


@contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.promises_seconds
def test_a_gateway_that_is_stopped_makes_no_turn_wait(client, monkeypatch):
    client.until_told()
    before = client.misses(monkeypatch)
    with stopped(owner_of(client)):
        began = time.monotonic()
        assert client.run(session="s-5") is None
        assert time.monotonic() - began < PROMISED_S
    assert client.misses(monkeypatch)["slow"] == before["slow"] + 1
    assert client.run(session="s-6") is not None


@pytest.mark.promises_seconds
def test_a_gateway_that_was_killed_makes_no_turn_wait_and_another_one_follows(client):
    client.until_told()
    os.kill(owner_of(client), signal.SIGKILL)
    for mark in Path(client.environment["XDG_CACHE_HOME"]).rglob("*.started"):
        mark.unlink()
    began = time.monotonic()
    client.run(session="s-5")
    assert time.monotonic() - began < PROMISED_S
    assert client.until_told() is not None


@pytest.mark.promises_seconds
def test_an_index_that_is_locked_makes_no_turn_wait(client, home):
    client.until_told()
    index = next(home.state.glob("memory/*.sqlite"))
    connection = apsw.Connection(str(index))
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE")
        began = time.monotonic()
        client.run(session="s-5")
        assert time.monotonic() - began < PROMISED_S
    finally:
        connection.close()


@pytest.mark.promises_seconds
@pytest.mark.skipif(not hung_disk.is_possible(), reason=hung_disk.NEEDS)
def test_a_disk_that_hangs_makes_no_turn_wait(client, home):
    client.until_told()
    below = [home.root / "cache", home.state, home.workspace, home.config]
    disk = HungDisk(home.root, *below)
    client.environment |= disk.environment
    disk.hang()
    try:
        began = time.monotonic()
        assert client.run(session="s-5") is None
        assert (
            time.monotonic() - began < PROMISED_S + 0.1
        )  # loading the library takes its time, too
    finally:
        disk.answer()


@pytest.mark.promises_seconds
def test_a_client_that_does_not_close_its_end_makes_no_turn_wait(client):
    client.until_told()
    with client.start() as process:
        began = time.monotonic()
        patience = threading.Timer(PATIENCE_S, process.kill)
        patience.start()
        assert process.wait() == 0  # with a timeout it polls every 50 ms only
        assert time.monotonic() - began < PROMISED_S
        patience.cancel()


def test_a_prompt_shows_people_what_a_model_would_be_told(home):
    home.run("index")
    assert '<passage path="memory/projects/server.md"' in home.run("recall", PROMPT).stdout
    assert home.run("recall", "thanks!").stderr.startswith("Nothing: the prompt has no subject")
    assert json.loads(home.run("recall", PROMPT, "--json").stdout)["tokens"] > 0
    assert home.run("recall").returncode == os.EX_USAGE


def test_a_command_that_recalls_waits_until_the_index_is_up_to_date(home):
    home.configure({"agents": {"defaults": {"memorySearch": {"sync": {"searchBudgetMs": 0}}}}})
    shown = home.run("recall", PROMPT)
    assert '<passage path="memory/projects/server.md"' in shown.stdout
    assert shown.stderr == ""


def test_the_hook_imports_nothing_that_the_interpreter_has_not_loaded(home, client):
    client.until_told()
    code = "import sys; from memory_gateway import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "recall", "--hook", "codex", *home.arguments]
    done = subprocess.run(
        command, env=client.environment | {"PYTHONPROFILEIMPORTTIME": "1"}, input=b"{}",
        capture_output=True, timeout=PATIENCE_S, check=False, cwd=ROOT,
    )  # fmt: skip
    names = [line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()]
    ours = names[names.index("site") + 1 :]
    heavy = {"json", "re", "socket", "pathlib", "subprocess", "msgspec", "threading", "typing"}
    assert "gateway.hook" in ours
    assert heavy.isdisjoint(ours)
