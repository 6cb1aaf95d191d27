"""Canaries in every place where a secret may stand, and a search for them in everything that comes out."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.faults import Fault, status
from fakes.vendors import FakeVendor

KEY = "sk-canary-4b1d9a7730c2e85f6611"
HEADER = "canary-header-92ab17cc04"
USER = "canary-user-5d11"
PASSWORD = "canary-password-71fe"
QUERY = "canary-query-c03e88"
UNRELATED = "canary-environment-18aa"
SPOKEN = "sk-proj-canaryspoken0123456789abcdefABCDEF0123"
CANARIES = (KEY, HEADER, PASSWORD, QUERY, UNRELATED, SPOKEN)


@pytest.fixture
def wired(home):
    """A home whose host knows the key; it also has a transcript in which somebody said a key."""
    sessions = home.state / "agents/main/sessions"
    sessions.mkdir(parents=True)
    message = {
        "role": "user",
        "content": [{"type": "text", "text": f"The greenhouse key: {SPOKEN}"}],
    }
    lines = [{"type": "session", "id": "one"}, {"type": "message", "message": message}]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (sessions / "one.jsonl").write_text(text, encoding="utf-8")
    with FakeVendor("openai", key=KEY) as vendor:
        configure(home, vendor.base_url)
        yield vendor


def configure(home, base_url):
    search = {
        "provider": "openai",
        "remote": {"baseUrl": base_url, "apiKey": KEY, "headers": {"X-Private": HEADER}},
        "experimental": {"sessionMemory": True},
        "sources": ["memory", "sessions"],
    }
    home.configure({"agents": {"defaults": {"memorySearch": search}}})


def talk(home, *requests):
    """A whole conversation with the real process: its answers, its log, and what /proc knew of it."""
    environment = {**home.environment, "UNRELATED_TOKEN": UNRELATED}
    command = [sys.executable, "-m", "gateway", "serve", *home.arguments, "--log-level", "debug"]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests)
    ]
    assert process.stdin is not None
    assert process.stdout is not None
    answers = []
    with process:
        for call in calls:
            process.stdin.write(f"{json.dumps(call)}\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())
            while '"id":' not in answers[-1]:  # progress, told between
                answers.append(process.stdout.readline())
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8")
        rest, log = process.communicate(timeout=30)
    assert process.returncode == 0
    return ["".join(answers), rest, log, arguments]


def files_of(home):
    """Every file that the gateway made; not what the person wrote."""
    own = {home.config, home.state / "agents/main/sessions/one.jsonl"}
    return [path for path in home.root.rglob("*") if path.is_file() and path not in own]


def leaks(home, texts):
    """The canaries that are found, and where."""
    places = dict(enumerate(texts)) | {
        str(path): path.read_bytes().decode("latin-1") for path in files_of(home)
    }
    return [
        (canary, place) for canary in CANARIES for place, text in places.items() if canary in text
    ]


ECHO = {"error": {"message": f"Incorrect API key provided: {KEY}; {HEADER}"}}
FAULTS = {
    "none": None,
    "a refusal that echoes what was sent": status(401, body=ECHO),
    "a fault that echoes what was sent": status(500, body=ECHO),
}


def everything_said(home):
    said = talk(
        home,
        ("initialize", {}),
        ("sync", {}),
        ("memory_search", {"query": "greenhouse key"}),
        ("memory_get", {"path": "../outside.md"}),
        ("status", {"deep": True}),
        ("health", {"deep": True}),
    )
    for command in ("status", "doctor"):
        done = home.run(command)
        said += [done.stdout, done.stderr]
    assert "greenhouse" in said[0]
    return said


@pytest.mark.parametrize("name", FAULTS)
def test_no_secret_comes_out_of_a_host_that_misbehaves(home, wired, name):
    fault: Fault | None = FAULTS[name]
    if fault is not None:
        wired.misbehave(fault)
    said = everything_said(home)
    assert wired.requests
    assert leaks(home, said) == []


@pytest.mark.parametrize("part", ["user", "query"])
def test_no_secret_comes_out_of_an_address(home, wired, part):
    address = wired.base_url
    user = address.replace("://", f"://{USER}:{PASSWORD}@")
    configure(home, user if part == "user" else f"{address}?token={QUERY}")
    assert leaks(home, everything_said(home)) == []


def test_the_search_for_secrets_finds_them(home):
    (home.root / "dump").write_text(f"a {KEY}", encoding="utf-8")
    assert leaks(home, [f"x{QUERY}"]) == [(KEY, str(home.root / "dump")), (QUERY, 0)]


def test_what_is_made_is_for_its_owner_alone(home):
    talk(home, ("initialize", {}), ("sync", {}))
    made = [path for path in files_of(home) if home.workspace not in path.parents]
    assert made
    open_to_others = [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []
