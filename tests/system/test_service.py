"""The real process as a service: ready when it can answer, watched, reloaded, stopped, installed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.service_manager import NotifyReceiver
from gateway.ownership.owner import make_private

ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.set_inheritable(3, True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = "1"
os.execv(sys.executable, [sys.executable, "-m", "gateway", *sys.argv[2:]])
"""
"""A service manager's work between fork and exec."""


@contextmanager
def running(home, command, receiver, **options) -> Iterator[subprocess.Popen]:
    environment = home.environment | {
        "NOTIFY_SOCKET": receiver.address,
        "WATCHDOG_USEC": "600000",
        "XDG_RUNTIME_DIR": str(home.root),
    }
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, encoding="utf-8", **options,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def serve(home) -> list[str]:
    return [sys.executable, "-m", "gateway", "serve", "--socket-only", *home.arguments]


@pytest.fixture
def receiver(tmp_path):
    with NotifyReceiver(tmp_path / "notify.sock") as receiving:
        yield receiving


def ask(path: Path, method: str) -> dict:
    directory = os.open(path.parent, os.O_PATH)  # addresses of sockets are short, test folders long
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(60)
        client.connect(f"/proc/self/fd/{directory}/{path.name}")
        os.close(directory)
        client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            data += client.recv(65_536)
    return json.loads(data)["result"]


def test_a_service_is_ready_when_it_answers_and_says_how_it_is(home, receiver):
    with running(home, serve(home), receiver) as process:
        receiver.wait_for("READY=1")
        (path,) = (home.root / "memory-gateway").glob("*.sock")
        assert ask(path, "health")["status"] == "ok"
        assert receiver.wait_for("STATUS=Agent main: ok")
        receiver.wait_for("WATCHDOG=1")
        home.configure({"agents": {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}}})
        process.send_signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in receiver.wait_for("RELOADING=1")
        receiver.wait_for("READY=1")
        process.send_signal(signal.SIGTERM)
        receiver.wait_for("STOPPING=1")
        assert process.wait(60) == 0


def test_a_service_beside_an_owner_is_ready_and_stands_by(home, receiver, tmp_path):
    with running(home, serve(home), receiver), NotifyReceiver(tmp_path / "second") as second:
        receiver.wait_for("READY=1")
        with running(home, serve(home), second):
            second.wait_for("READY=1")
            assert "standing by" in second.wait_for("STATUS")


def test_a_child_of_a_chat_gateway_leaves_the_notifications_to_its_parent(home, receiver):
    command = [sys.executable, "-m", "gateway", "serve", *home.arguments]
    with running(home, command, receiver) as process:
        assert process.wait(60) == 0
    with pytest.raises(TimeoutError):
        receiver.wait_for("", timeout_s=0.01)


def test_clients_of_a_socket_that_was_handed_in_are_answered(home, receiver, tmp_path):
    path = tmp_path / "activated.sock"
    make_private(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        command = [sys.executable, "-c", ACTIVATE, str(listening.fileno()), *serve(home)[3:]]
        with running(home, command, receiver, pass_fds=[listening.fileno()]):
            assert ask(path, "health")["status"] == "ok"


def test_what_is_handed_in_and_is_no_listening_socket_is_left_alone(home, receiver, tmp_path):
    file = tmp_path / "file"
    with file.open("w", encoding="utf-8") as opened:
        command = [sys.executable, "-c", ACTIVATE, str(opened.fileno()), *serve(home)[3:]]
        with running(home, command, receiver, pass_fds=[opened.fileno()]) as process:
            receiver.wait_for("READY=1")
            process.send_signal(signal.SIGTERM)
            assert "no socket" in process.communicate(timeout=60)[1]


def test_a_key_may_be_a_credential_of_the_service(home, tmp_path):
    (tmp_path / "OPENAI_API_KEY").write_text("sk-from-a-credential\n", encoding="utf-8")
    command = [sys.executable, "-m", "gateway", "config", *home.arguments]
    done = subprocess.run(
        command, env=home.environment | {"CREDENTIALS_DIRECTORY": str(tmp_path)},
        capture_output=True, encoding="utf-8", check=True, timeout=60,
    )  # fmt: skip
    assert "sk-from-a-credential" not in done.stdout + done.stderr


FAKE_SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$HOME/systemctl.log"
case "$*" in
  *show*) printf 'LoadState=loaded\\nUnitFileState=enabled\\nActiveState=%s\\nSubState=running\\n' \
            "${FAKE_STATE:-active}"
          printf 'MainPID=7\\nStatusText=Agent main: ok.\\n';;
esac
"""


@pytest.fixture
def manage(home):
    """Runs `memory-gateway service ...` with a systemctl that records its arguments."""
    programs = home.root / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text(FAKE_SYSTEMCTL, encoding="utf-8")
    (programs / "systemctl").chmod(0o755)

    def run(*arguments, **environment):
        path = f"{programs}{os.pathsep}{home.environment['PATH']}"
        own = [] if "--notes" in arguments else home.arguments
        done = subprocess.run(
            [sys.executable, "-m", "gateway", "service", *arguments, *own],
            env=home.environment | {"PATH": path} | environment,
            capture_output=True, encoding="utf-8", check=False, timeout=60,
        )  # fmt: skip
        log = home.root / "systemctl.log"
        calls = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return done, calls

    return run


def test_a_service_is_installed_shown_and_removed(home, manage):
    units = home.root / ".config/systemd/user"
    done, calls = manage("install")
    assert done.returncode == 0, done.stderr
    unit = "memory-gateway@main.service"
    assert calls == [
        "--user daemon-reload", f"--user enable {unit}", f"--user restart {unit}"
    ]  # fmt: skip
    assert sys.executable in (units / "memory-gateway@.service").read_text(encoding="utf-8")
    drop_in = (units / f"{unit}.d/installed.conf").read_text(encoding="utf-8")
    assert f"--workspace {home.workspace}" in drop_in
    assert f"ReadWritePaths=-{home.state}/memory -{home.state} -{home.workspace}\n" in drop_in

    done, _ = manage("status")
    assert (done.returncode, "active (running), enabled" in done.stdout) == (0, True)
    assert "Agent main: ok." in done.stdout
    done, _ = manage("status", "--json", FAKE_STATE="failed")
    assert (done.returncode, json.loads(done.stdout)["active"]) == (3, False)

    other = units / "memory-gateway@other.service.d/installed.conf"
    other.parent.mkdir()
    other.write_text("", encoding="utf-8")
    done, calls = manage("uninstall")
    socket = "memory-gateway@main.socket"
    assert calls == [f"--user disable --now {socket} {unit}", "--user daemon-reload"]
    assert not (units / f"{unit}.d").exists()
    assert (units / "memory-gateway@.service").exists()
    other.unlink()
    manage("uninstall")
    assert not list(units.glob("*.service"))


def test_a_folder_of_notes_gets_a_service_of_its_own(home, manage):
    (folder := home.root / "notes").mkdir()
    where = ["--notes", str(folder)]
    done, calls = manage("install", *where)
    (name,) = (one.name for one in (home.root / ".local/share/memory-gateway/notes").iterdir())
    unit = f"memory-gateway@{name}.service"
    assert done.stdout.endswith(f"started {unit}\n")
    assert (done.returncode, calls[-1]) == (0, f"--user restart {unit}")
    drop_in = home.root / f".config/systemd/user/{unit}.d/installed.conf"
    text = drop_in.read_text(encoding="utf-8")
    assert f"serve --socket-only --notes {folder}\n" in text
    assert f"-{folder}\n" in text
    assert manage("status", *where)[0].stdout.startswith(unit)
    socket = unit.replace(".service", ".socket")
    assert manage("uninstall", *where)[1][0] == f"--user disable --now {socket} {unit}"
    assert not drop_in.exists()


def test_without_a_service_manager_it_says_what_is_left_to_do(home, manage):
    done, _ = manage("uninstall", PATH="/nowhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "memory-gateway@main.service is not installed.\n"
    done, _ = manage("install", PATH="/nowhere")
    assert done.returncode == os.EX_UNAVAILABLE
    assert "systemctl --user daemon-reload; systemctl --user enable" in done.stderr
    assert "wrote" in done.stdout
    assert manage("status", PATH="/nowhere")[0].returncode == os.EX_UNAVAILABLE
    done, _ = manage("uninstall", PATH="/nowhere")
    assert done.returncode == os.EX_UNAVAILABLE
    assert "removed" in done.stdout and "systemctl --user disable --now" in done.stderr


def test_what_the_service_cannot_see_is_named(home, manage):
    """The unit has a /tmp of its own."""
    done, _ = manage("install", "--json")
    workspace = str(home.workspace)
    assert (workspace in json.loads(done.stdout)["hidden"]) == workspace.startswith("/tmp/")
    (folder := home.root / "notes").mkdir()
    hidden = json.loads(manage("install", "--json", "--notes", str(folder))[0].stdout)["hidden"]
    assert len(hidden) == len(set(hidden))


def test_a_place_that_cannot_be_written_is_named(home, manage):
    (home.root / ".config").write_text("in the way", encoding="utf-8")
    done, calls = manage("install")
    assert (done.returncode, calls) == (os.EX_CANTCREAT, [])
    assert "cannot be written" in done.stderr


def test_a_service_manager_that_does_not_answer_is_told_to_programs_as_well(home, manage):
    done, _ = manage("status", "--json", PATH="/nowhere")
    status = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (69, "")
    assert (status["unit"], status["state"]) == ("memory-gateway@main.service", "unknown")
    assert "does not answer" in status["problem"]
    assert "loginctl" in status["remedy"]
