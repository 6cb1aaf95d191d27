"""The real process ends with the one that started it, also when its input stays open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from endurance.processes import processes_of
from gateway.process.beginning import is_orphan


def test_a_child_in_its_parent_s_session_is_no_orphan():
    assert not is_orphan(os.getppid())


@pytest.mark.parametrize("leads", [True, False])
def test_who_was_handed_over_to_a_stranger_is_an_orphan_unless_it_leads_a_session(leads):
    script = (
        "import os, sys; from gateway.process.beginning import is_orphan; sys.stdin.read();"
        "print(is_orphan(os.getppid()))"
    )
    launch = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
        f" start_new_session={leads})"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", launch, script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        encoding="utf-8",
    )  # fmt: skip
    assert done.wait(timeout=60) == 0
    out, _ = done.communicate(timeout=60)
    assert out.strip() == str(not leads)


def test_who_has_looked_once_knows_a_stranger_also_in_its_own_session():
    script = (
        "import os, sys; from gateway.process.beginning import PARENT, is_orphan;"
        "os.write(int(sys.argv[1]), b'.'); sys.stdin.read(); print(is_orphan(PARENT))"
    )
    launch = (
        "import os, subprocess, sys; seen, looked = os.pipe();"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1], str(looked)], pass_fds=[looked],"
        " start_new_session=True); os.read(seen, 1)"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", launch, script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    assert done.wait(timeout=60) == 0
    out, _ = done.communicate(timeout=60)
    assert out.strip() == "True"


def test_who_the_parent_is_is_asked_before_anything_is_loaded():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gateway", "--version"],
        capture_output=True, encoding="utf-8", timeout=60, check=True,
    )  # fmt: skip
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    ours = [name for name in loaded if name.startswith(("gateway.", "config", "msgspec"))]
    assert ours[:2] == ["gateway.process", "gateway.process.beginning"]


def test_a_service_has_no_parent_to_end_with_and_ends_by_signal(home):
    launch = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-m', 'gateway', *sys.argv[1:]],"
        " stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"
    )
    arguments = ["serve", "--socket-only", *home.arguments]
    subprocess.run(
        [sys.executable, "-c", launch, *arguments], env=home.environment, check=True, timeout=60
    )
    (pid,) = processes_of(str(home.root))

    def is_served(found):
        return found["pid"] == pid and found["files"] == 4

    try:
        home.command("status", "--json", until=is_served)
    finally:
        os.kill(pid, signal.SIGTERM)
    home.until(lambda: not processes_of(str(home.root)))
