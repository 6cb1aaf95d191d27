"""A distinct secret in every place that may contain one, and a search for all of them in all output.

The tables are complete on purpose: a method or a command that they do not know fails a test.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import anyio
import pytest
import typer

from fakes.canaries import canary, files_below, leaks
from fakes.embedding import embedded, vector_status
from fakes.faults import status
from fakes.onnx_models import write_embedder
from fakes.planted import PLANTED, WAIT_S, Wired
from fakes.postgres import SERVING
from fakes.vendors import FakeVendor

VENDORS = ("openai", "gemini", "voyage")

CALLS = {
    "initialize": {"client": "test", "sessionKey": "agent:main:main"},
    "sync": {},
    "memory_search": {"query": "greenhouse key", "explain": True},
    "memory_get": {"path": "../outside.md"},
    "status": {"deep": True},
    "health": {"deep": True},
    "metrics": {},
    "overview": {},
    "forget": {"path": "memory/none.md"},
    "recall": {"prompt": "Where is the greenhouse key?", "sessionKey": "agent:main:main"},
    "reload": {},
    "session_start": {"sessionKey": "agent:main:main"},
    "memory_flush": {"sessionKey": "agent:main:main"},
    "memory_flush_done": {"sessionKey": "agent:main:main"},
    "memory_append": {"text": "- The kettle is descaled."},
    "session_updated": {"sessionId": "one"},
    "server/discover": {},
    "ping": {},
    "tools/list": {},
    "tools/call": {"name": "memory_search", "arguments": {"query": "greenhouse key"}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "memory:///memory/2026-02-01.md"},
    "prompts/list": {},
    "prompts/get": {"name": "remember", "arguments": {"topic": "the greenhouse"}},
    "no such method": {"apiKey": 1},
    "shutdown": {},
}

COMMANDS = {
    "serve": ("--help",),
    "index": (),
    "search": ("greenhouse key", "--explain"),
    "get": ("memory/2026-02-01.md",),
    "recall": ("Where is the greenhouse key?",),
    "remember": ("- The kettle is descaled.",),
    "forget": ("memory/none.md",),
    "status": (),
    "health": ("--deep",),
    "doctor": (),
    "reload": (),
    "metrics": (),
    "report": ("--output", "report.html", "--question", "greenhouse key"),
    "service": ("status",),
    "connect": ("cursor", "--yes"),
    "disconnect": ("cursor", "--yes"),
    "config": (),
    "qmd": ("env",),
    "demo": ("--help",),  # uses a home and a configuration of its own
    "models list": (),
    "models suggest": (),
    "models pull": ("--help",),  # uses the network
    "models remove": ("nothing/at-all/x.gguf",),
    "batch list": (),
    "batch cancel": ("none",),
    "store migrate": (),
    "store check": (),
    "store copy": ("--from", "postgres", "--to", "sqlite"),
    "store drop-agent": ("main", "--yes"),
    "openclaw install": ("--yes", "--openclaw", "/nowhere/openclaw"),
    "openclaw status": ("--openclaw", "/nowhere/openclaw"),
    "openclaw uninstall": ("--yes", "--openclaw", "/nowhere/openclaw"),
    "browse": (),
    "recent": (),
    "tags": (),
    "links": ("memory/2026-02-01.md",),
    "open": ("memory/none.md",),
    "schema": (),
    "setup": ("--dry-run", "--yes"),
    "upgrade": (),
}


def ask(process, method, params):
    """Returns the answer to one request, and the notifications before it."""
    request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    process.stdin.write(f"{json.dumps(request)}\n")
    process.stdin.flush()
    output = process.stdout.readline()
    while '"id":' not in output.rsplit("\n", 2)[-2]:
        output += process.stdout.readline()
    return output


@pytest.fixture(params=VENDORS)
def wired(request, home):
    with FakeVendor(request.param, key=PLANTED["remote.apiKey"]) as host:
        made = Wired(home, host)
        made.plant()
        yield made


def everything_said(wired):
    """Returns the answers of every method, and the files on the disk before and after the end."""
    said = {}
    with wired.serving() as process:
        for method, params in CALLS.items():
            if method == "shutdown":
                said["reload of another process"] = wired.run("reload", "--json")
                made = wired.made().items()  # with the log of the index, which is merged at the end
                said |= {f"{name}, early": text for name, text in made}
                arguments = Path(f"/proc/{process.pid}/cmdline")
                said["arguments"] = arguments.read_text(encoding="utf-8")
            said[method] = ask(process, method, params)
        said["rest"] = process.stdout.read()
    return said


SENT = f"{PLANTED['remote.apiKey']} and {PLANTED['remote.headers']}"
ECHO = {"error": {"message": f"Wrong: {SENT}", "type": SENT, "code": SENT}, "detail": SENT}


@pytest.mark.parametrize(
    ("wired", "echo"),
    [*((vendor, 401) for vendor in VENDORS), ("openai", None), ("openai", 500)],
    indirect=["wired"],
)
def test_no_secret_comes_out_anywhere(wired, echo):
    if echo is not None:
        wired.host.misbehave(status(echo, body=ECHO))
    said = everything_said(wired)
    assert "greenhouse" in said["memory_search"]
    assert wired.host.requests
    made = wired.made()
    assert any("/children/" in path for path in made), "no child was started"
    assert any("Bearer" in text or "greenhouse key" in text.lower() for text in made.values())
    assert any("greenhouse number" in text.lower() for text in made.values())
    assert wired.leaks(said) == []


@pytest.mark.parametrize("wired", ["openai"], indirect=True)
@pytest.mark.parametrize("options", [("--log-level", "debug"), ("--json",)], ids=["plain", "JSON"])
def test_no_command_tells_a_secret_in_any_format(wired, type_in, options):
    wired.host.misbehave(status(401, body=ECHO))
    said = {}
    for name, arguments in COMMANDS.items():
        line = [*name.split(), *wired.home.arguments, *arguments, *options]
        done = type_in(*line, environment=wired.environment)
        said[name] = done.stdout + done.stderr
    assert "greenhouse" in said["search"]
    assert "memory-gateway" in said["connect"]
    assert "mcp.json" in said["disconnect"]
    assert "greenhouse" in (wired.home.root / "report.html").read_text(encoding="utf-8")
    assert wired.leaks(said) == []


@pytest.mark.parametrize("wired", ["openai"], indirect=True)
@pytest.mark.parametrize(
    ("source", "is_there"),
    [("store.url", True), ("store.passwordFile", False), ("the surroundings", False)],
)
def test_no_password_of_a_database_comes_out_whether_it_answers_or_not(
    wired, request, type_in, source, is_there
):
    """Each place is the source of the password once."""
    url = "postgresql://anna@127.0.0.1:9/memory"
    if is_there:
        server = request.getfixturevalue("postgres_server")
        url = server.url(server.migrated(), role=SERVING)
    store = {"driver": "postgres", "url": url}
    if source != "the surroundings":
        store["url"] = wired.database(url)
    if source == "store.passwordFile":
        store["passwordFile"] = str(wired.home.root / "password")
    wired.plant(store=store)
    said = everything_said(wired)
    if not is_there:
        for name in ("doctor", "status", *STORE):
            line = [*name.split(), *wired.home.arguments, *COMMANDS[name], "--log-level", "debug"]
            done = type_in(*line, environment=wired.environment)
            said[f"{name}, command"] = done.stdout + done.stderr
    assert ("greenhouse" in said["memory_search"]) == is_there
    assert is_there or "127.0.0.1:9" in said["memory_search"]
    assert wired.leaks(said) == []


STORE = [name for name in COMMANDS if name.startswith("store ")]


def test_a_host_gets_its_own_key_and_nothing_else(wired):
    with wired.serving() as process:
        ask(process, "sync", {})
        ask(process, "status", {"deep": True})
        ask(process, "memory_search", {"query": "greenhouse"})
    seen = [
        f"{one.path} {one.body} " + " ".join(v for k, v in one.headers.items() if k not in OURS)
        for one in wired.host.requests
    ]
    assert seen
    assert leaks(PLANTED, dict(enumerate(seen))) == []


OURS = {"authorization", "x-goog-api-key", "x-private"}


def test_the_tables_know_every_method_and_every_command(home):
    from gateway.cli.app import app

    with Wired(home, None).serving() as process:
        hello = json.loads(ask(process, "initialize", {}))
    methods = set(hello["result"]["capabilities"]["methods"])
    assert methods == CALLS.keys() - {"no such method"}
    commands = {
        f"{name} {inner}" if inner else name
        for name, command in typer.main.get_command(app).commands.items()
        for inner in getattr(command, "commands", [""])
    }
    assert commands == COMMANDS.keys()


SECRET = canary("broken configuration")
BROKEN = {
    "syntax beside a key": '{agents: {defaults: {memorySearch: {remote: {apiKey: "%s" "x"}}}}}',
    "syntax within a key": "{agents: {defaults: {memorySearch: {remote: {apiKey: %s}}}}}",
    "an unended key": '{agents: {defaults: {memorySearch: {remote: {apiKey: "%s}}}}}',
    "a list": '{agents: {defaults: {memorySearch: {remote: {apiKey: ["%s"]}}}}}',
    "a misspelt name": '{agents: {defaults: {memorySearch: {remote: {apikey: "%s"}}}}}',
    "an unknown name": '{agents: {defaults: {memorySearch: {remote: {token: "%s"}}}}}',
    "a control character": '{agents: {defaults: {memorySearch: {remote: {apiKey: "%s\\u0007"}}}}}',
    "a list of headers": '{agents: {defaults: {memorySearch: {remote: {headers: ["X: %s"]}}}}}',
    "headers as text": '{agents: {defaults: {memorySearch: {remote: {headers: "X: %s"}}}}}',
    "a header of objects": '{agents: {defaults: {memorySearch: {remote: {headers: {X: {v: "%s"}}}}}}}',
    "a reference elsewhere": '{agents: {defaults: {memorySearch: {remote: {apiKey: {source: "file", id: "%s"}}}}}}',
    "the password of an address": (
        '{agents: {defaults: {memorySearch: {provider: "openai", '
        'remote: {baseUrl: "http://u:%s@127.0.0.1:9/v1"}}}}}'
    ),
    "the query of an address": (
        '{agents: {defaults: {memorySearch: {provider: "openai", '
        'remote: {baseUrl: "http://127.0.0.1:9/v1?key=%s"}}}}}'
    ),
    "the fragment of an address": (
        '{agents: {defaults: {memorySearch: {provider: "openai", '
        'remote: {baseUrl: "http://127.0.0.1:9/v1#%s"}}}}}'
    ),
    "an address that is none": (
        '{agents: {defaults: {memorySearch: {provider: "openai", '
        'remote: {baseUrl: "u:%s@127.0.0.1"}}}}}'
    ),
    "a key in place of an address": (
        '{agents: {defaults: {memorySearch: {provider: "openai", '
        'remote: {baseUrl: "%s"}}}}}'
    ),
    "a vendor's address": (
        '{models: {providers: {openai: {baseUrl: "http://u:%s@127.0.0.1:9/v1"}}}, '
        'agents: {defaults: {memorySearch: {provider: "openai"}}}}'
    ),
    "a number among variables": '{env: {OPENAI_API_KEY: ["%s"]}}',
}  # fmt: skip


def test_a_broken_configuration_is_told_without_its_secrets(home, type_in):
    wired = Wired(home, None)
    said = {}
    with wired.serving() as process:
        ask(process, "ping", {})
        for name, text in BROKEN.items():
            home.config.write_text(text % SECRET, encoding="utf-8")
            answers = [ask(process, method, CALLS[method]) for method in ("reload", "status")]
            answers.append(ask(process, "memory_search", {"query": "greenhouse"}))
            said[f"{name}, serving"] = "".join(answers)
            lines = [["config", "--log-level", "debug"]]
            if "address" in name:
                lines.append(["doctor", "--json"])
            for command, *options in lines:
                done = type_in(command, *home.arguments, *options, environment=wired.environment)
                said[f"{name}, {command}"] = done.stdout + done.stderr
    assert leaks({"configuration": SECRET}, {**said, **wired.made()}) == []


CRASH = """
import signal
def crash(_, frame):
    if frame is None or frame.f_code.co_name != "select":
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        return
    raise RuntimeError("a fault of the program")
signal.signal(signal.SIGUSR2, crash)
signal.signal(signal.SIGALRM, crash)
"""
"""The program waits for the event loop itself: a fault in one task's step may be handled by that task."""


@pytest.mark.parametrize("wired", ["openai"], indirect=True)
def test_a_crash_tells_no_secret(wired):
    """The crashes are an exception in the middle of the event loop, and a signal that no Python code sees."""
    wired.write("crash/sitecustomize.py", CRASH)
    said = {}
    with wired.serving(
        PYTHONPATH=f"{wired.home.root / 'crash'}:{Path(__file__).parents[2]}",
        PYTHONFAULTHANDLER="1",
    ) as process:
        said["status"] = ask(process, "status", {"deep": True})
        limits = Path(f"/proc/{process.pid}/limits").read_text(encoding="utf-8")
        process.send_signal(signal.SIGUSR2)
        process.wait(WAIT_S)
        assert "a fault of the program" in log_of(wired)
    with wired.serving(PYTHONFAULTHANDLER="1") as process:
        ask(process, "status", {"deep": True})
        process.send_signal(signal.SIGSEGV)
        process.wait(WAIT_S)
        assert "Segmentation fault" in log_of(wired)
        assert "Thread" in log_of(wired)
    assert wired.leaks(said) == []
    (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core.split()[4] == "0"


def log_of(wired):
    return (wired.home.root / "log").read_text(encoding="utf-8")


@pytest.mark.anyio
@pytest.mark.parametrize("wired", ["openai"], indirect=True)
async def test_the_worker_of_a_local_model_inherits_no_secret(home, wired):
    wired.plant(
        provider="local",
        local={"modelPath": str(write_embedder(home.root / "tiny/model.onnx", context=256))},
    )
    from gateway.client import spawn_gateway

    async with spawn_gateway(home.arguments, environment=wired.environment) as client:
        with anyio.fail_after(WAIT_S):
            await client.call("sync", {})
            await embedded(client)
        worker = (await vector_status(client))["provider"]["active"]["details"]["worker"]["pid"]
        known = {
            name: Path(f"/proc/{worker}/{name}").read_bytes().decode("latin-1")
            for name in ("environ", "cmdline", "limits")
        }
    assert "PATH=" in known["environ"]
    assert leaks(PLANTED, known) == []


def test_the_search_for_secrets_finds_them_whole_in_part_and_encoded(tmp_path):
    import base64

    secret = PLANTED["remote.apiKey"]
    (tmp_path / "dump").write_bytes(b"\x00" + secret.encode() + b"\xff")
    outputs = {
        **files_below(tmp_path),
        "cut": secret[:20],
        "encoded": base64.b64encode(secret.encode()).decode(),
        "clean": "sk-***",
    }
    found = leaks({"remote.apiKey": secret}, outputs)
    assert [output for _, output in found] == [str(tmp_path / "dump"), "cut", "encoded"]
