"""The service under a real `systemd --user`: everything that docs/operations.md says of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.user_manager import HOME, UserManager, UserManagerUnavailableError

UNIT = "memory-gateway@main.service"
SOCKET = "memory-gateway@main.socket"
UNITS = Path(".config/systemd/user")
DROP_IN = UNITS / f"{UNIT}.d/override.conf"
PATIENCE_S = 120
ASK = """
import glob, socket, sys
(path,) = glob.glob(sys.argv[1])
client = socket.socket(socket.AF_UNIX)
client.settimeout(60)
client.connect(path)
client.sendall(sys.argv[2].encode() + b"\\n")
print(client.makefile().readline())
"""


@pytest.fixture
def manager() -> Iterator[UserManager]:
    try:
        manager = UserManager().__enter__()
    except UserManagerUnavailableError as reason:
        pytest.skip(str(reason))
    try:
        manager.write(Path(".openclaw/workspace/MEMORY.md"), "# Memory\n\n- The boiler is green.\n")
        yield manager
    finally:
        manager.__exit__(None, None, None)


def install(manager: UserManager, *arguments: str) -> None:
    done = manager.gateway("service", "install", "--agent", "main", *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def override(manager: UserManager, *settings: str) -> None:
    """Writes a drop-in of the user's own, as `systemctl --user edit` does."""
    manager.write(DROP_IN, "\n".join(("[Service]", *settings, "")))
    assert not manager.systemctl("daemon-reload").returncode


def shown(manager: UserManager, setting: str, unit: str = UNIT) -> str:
    return manager.systemctl("show", unit, f"--property={setting}", "--value").stdout.strip()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


def ask(manager: UserManager, method: str, *, name: str = "*.sock", **params: object) -> dict:
    """Sends one request to the socket, as a client without any program of ours does; returns the answer."""
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    path = manager.runtime / "memory-gateway" / name
    done = manager.run("/run/environment/bin/python", "-c", ASK, str(path), request)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)["result"]


def test_an_installed_service_is_ready_when_its_manager_says_so_and_tells_how_it_is(manager):
    install(manager)
    assert shown(manager, "ActiveState") == "active"
    assert ask(manager, "memory_search", query="boiler")["results"][0]["path"] == "MEMORY.md"
    until(lambda: "Agent main: ok. 1 file" in shown(manager, "StatusText"))
    done = manager.gateway("service", "status", "--agent", "main", "--json")
    status = json.loads(done.stdout)
    assert (status["installed"], status["enabled"], status["active"]) == (True, True, True)
    assert status["pid"] == int(shown(manager, "MainPID"))
    assert "Agent main: ok." in status["status"]
    done = manager.gateway("doctor", "--json")
    assert not [
        finding
        for finding in json.loads(done.stdout)["findings"]
        if finding["check"] in {"service", "owner"} and finding["severity"] in {"warning", "error"}
    ]


def test_a_killed_service_is_started_again_and_answers(manager):
    install(manager)
    killed = shown(manager, "MainPID")
    manager.systemctl("kill", "--signal=KILL", UNIT)
    until(lambda: shown(manager, "MainPID") not in {killed, "0"})
    until(lambda: shown(manager, "ActiveState") == "active")
    assert shown(manager, "NRestarts") == "1"
    assert ask(manager, "memory_search", query="boiler")["results"]


def test_a_reload_by_the_manager_applies_a_changed_configuration(manager):
    install(manager)
    before = shown(manager, "MainPID")
    search = {"query": {"maxResults": 3}}
    manager.write(
        Path(".openclaw/openclaw.json"),
        json.dumps({"agents": {"defaults": {"memorySearch": search}}}),
    )
    for number in range(6):
        manager.write(
            Path(f".openclaw/workspace/memory/2026-02-0{number + 1}.md"),
            f"# Day {number}\n\n- The boiler had {number} bar, the tank was {number}7 degrees.\n",
        )
    assert not manager.systemctl("reload", UNIT).returncode
    until(lambda: len(ask(manager, "memory_search", query="boiler")["results"]) == 3)
    assert shown(manager, "MainPID") == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--config", "{home}/broken.json"), 78), (("--log-level", "loudest"), 64)],
    ids=["a broken configuration", "an unknown word on the command line"],
)
def test_a_mistake_that_another_start_does_not_mend_is_not_tried_again(manager, arguments, code):
    install(manager)
    manager.write(Path("broken.json"), "{ agents: ")
    line = " ".join(one.format(home=HOME) for one in arguments)
    program = "/run/environment/bin/python -E -P /run/checkout/config/runtime/start.py gateway"
    override(manager, "ExecStart=", f"ExecStart={program} serve --socket-only {line}")
    assert manager.systemctl("restart", UNIT).returncode
    assert shown(manager, "ExecMainStatus") == str(code)
    assert (shown(manager, "ActiveState"), shown(manager, "SubState")) == ("failed", "failed")
    assert shown(manager, "NRestarts") == "0"


def test_the_first_client_of_the_socket_starts_the_service(manager):
    install(manager)
    manager.systemctl("disable", "--now", UNIT)
    assert not manager.systemctl("enable", "--now", SOCKET).returncode
    assert shown(manager, "ActiveState") == "inactive"
    answer = ask(manager, "memory_search", name="main.socket", query="boiler")
    assert answer["results"][0]["path"] == "MEMORY.md"
    assert shown(manager, "ActiveState") == "active"


def test_a_service_that_hangs_is_ended_by_the_watchdog_and_started_again(manager):
    install(manager)
    assert shown(manager, "WatchdogUSec") == "1min"
    override(manager, "WatchdogSec=3", "TimeoutAbortSec=1")
    manager.systemctl("restart", UNIT)
    hung = shown(manager, "MainPID")
    manager.systemctl("kill", "--signal=STOP", UNIT)
    until(lambda: shown(manager, "MainPID") not in {hung, "0"})
    until(lambda: shown(manager, "ActiveState") == "active")
    assert shown(manager, "NRestarts") == "1"
    assert ask(manager, "health")["status"] == "ok"


def test_the_manager_knows_the_limits_of_the_unit(manager):
    """The enforcement of the memory limits depends on the controllers that the machine gives to its users."""
    install(manager)
    limits = {name: shown(manager, name) for name in ("MemoryHigh", "MemoryMax", "TasksMax")}
    assert limits == {"MemoryHigh": str(2 << 30), "MemoryMax": str(4 << 30), "TasksMax": "256"}
    assert (shown(manager, "LimitNOFILE"), shown(manager, "LimitCORE")) == ("4096", "0")


def test_without_a_journal_the_log_goes_where_a_drop_in_says(manager):
    install(manager)
    override(manager, f"StandardError=append:{HOME}/.openclaw/gateway.log")
    manager.systemctl("restart", UNIT)
    ask(manager, "memory_search", query="boiler")
    log = Path(".openclaw/gateway.log")
    until(lambda: '"serving"' in manager.read(log))
    records = [json.loads(line) for line in manager.read(log).splitlines()]
    assert {one["level"] for one in records} <= {"info", "warning"}
    assert "boiler" not in manager.read(log)


def test_a_credential_of_the_manager_is_the_key_of_its_name_and_in_no_output(manager):
    key = "sk-canary-0123456789abcdefghij"
    manager.write(Path(".config/memory-gateway/openai.key"), f"{key}\n")
    search = {"provider": "openai", "remote": {"baseUrl": "http://127.0.0.1:9/v1"}}
    manager.write(
        Path(".openclaw/openclaw.json"),
        json.dumps({"agents": {"defaults": {"memorySearch": search}}}),
    )
    install(manager)
    without = json.dumps(ask(manager, "status", deep=True))
    override(manager, "LoadCredential=OPENAI_API_KEY:%h/.config/memory-gateway/openai.key")
    manager.systemctl("restart", UNIT)
    status = json.dumps(ask(manager, "status", deep=True))
    assert "used without a key" in without
    assert "used without a key" not in status
    environment = manager.run("cat", f"/proc/{shown(manager, 'MainPID')}/environ").stdout
    outputs = (status, environment, manager.systemctl("show", UNIT).stdout)
    assert not [output for output in outputs if key in output]


@pytest.mark.promises_seconds
def test_a_stop_amid_work_is_orderly_and_within_its_time(manager):
    install(manager)
    large = "".join(
        f"- entry {number} of the boiler, valve {number * 7}\n" for number in range(60_000)
    )
    manager.write(Path(".openclaw/workspace/memory/large.md"), f"# Large\n\n{large}")
    began = time.monotonic()
    assert not manager.systemctl("stop", UNIT).returncode
    assert time.monotonic() - began < 10
    assert (shown(manager, "Result"), shown(manager, "ExecMainStatus")) == ("success", "0")


def test_a_service_that_does_not_start_is_told_as_such_and_one_that_is_not_there_is_no_fault(
    manager,
):
    """The manager can be reached, so another login would change nothing."""
    manager.write(DROP_IN, "[Service]\nExecStartPre=/bin/false\n")
    done = manager.gateway("service", "install", "--agent", "main")
    assert done.returncode == 69
    assert "systemd did not do it: Job for" in done.stderr
    assert f"`journalctl --user -u {UNIT}` tells why" in done.stderr
    assert f"run: systemctl --user restart {UNIT}" in done.stderr
    assert "login" not in done.stderr
    assert not manager.gateway("service", "uninstall", "--agent", "main").returncode
    again = manager.gateway("service", "uninstall", "--agent", "main")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"{UNIT} is not installed.\n"


def test_the_last_words_of_a_service_that_was_stopped_are_not_its_state(manager):
    install(manager)
    manager.systemctl("stop", UNIT)
    done = manager.gateway("service", "status", "--agent", "main")
    assert (done.returncode, done.stdout) == (3, f"{UNIT}: inactive (dead), enabled\n")


def test_an_uninstalled_service_leaves_nothing_not_even_the_link_of_an_enabled_socket(manager):
    install(manager)
    manager.systemctl("enable", "--now", SOCKET)
    done = manager.gateway("service", "uninstall", "--agent", "main")
    assert (done.returncode, done.stderr) == (0, "")
    left = manager.run("find", str(HOME / UNITS), "-not", "-type", "d").stdout
    assert left == ""
    assert shown(manager, "LoadState") == shown(manager, "LoadState", SOCKET) == "not-found"
    assert not manager.exists(manager.runtime / "memory-gateway/main.socket")
    assert manager.exists(HOME / ".openclaw/workspace/MEMORY.md")
