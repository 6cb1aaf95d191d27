"""Every example of the documentation does what it says: requests, commands, settings.

The examples are found in the documents: one that nothing here knows how to run fails.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from gateway.doctor.finding import Check

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{one.name}" for one in ROOT.glob("docs/*.md")),
]
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS}

REQUEST = re.compile(r"^ +→ (\{.*\})$", re.MULTILINE)
COMMAND = re.compile(
    r"^ {4}(?:\$ )?(?:memory-gateway|\./scripts/run) +([a-z-][^#\n]*)", re.MULTILINE
)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SETTINGS = re.compile(
    r"(?:```json5\n(\{.*?)```|^ {4}(\{ (?:agents|memory):.*?)\n\n)", re.DOTALL | re.MULTILINE
)

ELSEWHERE = {
    "serve": "tests/system/test_serve.py",
    "demo": "tests/system/test_demo.py",
    "setup": "tests/system/test_newcomer.py",
    "service": "tests/system/test_service.py",
    "models": "tests/gateway/cli/test_models.py",
    "qmd": "tests/system/test_qmd.py",
    "openclaw": "tests/system/test_openclaw_plugin.py",
    "store": "tests/system/test_store_commands.py",
    "batch": "tests/backends/builtin/batch/test_batch_by_hand.py",
    "upgrade": "tests/gateway/test_upgrade.py",
    "browse": "tests/system/test_browsing.py",
}
"""Commands that need a network, a terminal, a service manager or a program of their own, and the tests that run them.
"""


VOLATILE = "jsonrpc|id|version|sweep|prepare|search|today|timeZone|syncStarted"
MEMBER = re.compile(
    rf'"(?!(?:{VOLATILE})")(\w+)": ("(?:[^"\\.]|\\.|\.(?!\.\.))*"|[\d.]+|true|false)(?=[,}}\]])'
)
"""A name and its plain value, if nothing of it was left out."""


def requests(document):
    text = TEXTS[document]
    return [(json.loads(found[1]), answer(text[found.end() :])) for found in REQUEST.finditer(text)]


def answer(text):
    """Returns the printed answer, up to the next request or the end of the example."""
    return re.split(r"\n\s*→|\n\n(?! )", text, maxsplit=1)[0]


def commands():
    return sorted({found.strip() for text in TEXTS.values() for found in COMMAND.findall(text)})


def settings():
    return ["".join(found) for text in TEXTS.values() for found in SETTINGS.findall(text)]


async def test_every_request_is_answered_as_it_says(home):
    home.configure({"memory": {"append": {"enabled": True}}})
    shown = {name: found for name in DOCUMENTS if (found := requests(name))}
    assert set(shown) == {"docs/chat-gateways.md", "docs/protocol.md"}
    for examples in shown.values():
        assert len(examples) >= 5
        async with home.gateway() as client:
            for request, shown_answer in examples:
                if "id" not in request:
                    await client.notify(request["method"], request["params"])
                    continue
                result = await client.call(request["method"], request.get("params", {}))
                promised = re.search(r'"result": \{\s*"(\w+)"', shown_answer)
                assert promised, shown_answer
                assert promised[1] in result


@pytest.mark.parametrize("document", ["docs/chat-gateways.md", "docs/protocol.md"])
async def test_answers_are_those_that_are_printed_on_the_sample(home, document):
    """Every complete part of a printed answer is in the real one, except times and versions.

    The days of the examples are today and yesterday.
    """
    shutil.rmtree(home.workspace)
    shutil.copytree(ROOT / "gateway/sample/workspace", home.workspace)
    home.configure({"memory": {"append": {"enabled": True}}})
    assert home.run("index").returncode == 0
    today = datetime.now().astimezone().date()
    async with home.gateway() as client:
        for request, printed in requests(document):
            if "id" not in request:
                continue
            shown = printed.replace("2026-02-08", today.isoformat())
            shown = shown.replace("2026-02-07", (today - timedelta(days=1)).isoformat())
            result = await client.call(request["method"], request.get("params", {}))
            real = json.dumps(result, ensure_ascii=False)
            assert set(MEMBER.findall(shown)) - set(MEMBER.findall(real)) == set()


@pytest.mark.parametrize("command", commands())
def test_every_command_runs(home, type_in, command):
    home.state.chmod(0o700)
    environment = {**home.environment, "BROWSER": "true"}  # a program that just ends well
    name, *arguments = shlex.split(command)
    if name in ELSEWHERE:
        assert name in (ROOT / ELSEWHERE[name]).read_text(encoding="utf-8")
        return
    if name == "--help":
        assert type_in(name).returncode == 0
        return
    if name in ("connect", "disconnect") and arguments and "--print" not in arguments:
        arguments.append("--yes")  # nobody is there to answer a question
    arguments = [one.replace("~", str(home.root)) for one in arguments]
    if name == "recall":  # what answers it
        home.write("memory/house.md", "# House\n\nThe boiler is serviced each October.\n")
    if "--notes" in arguments:
        note = home.root / "notes/house/boiler.md"
        note.parent.mkdir(parents=True)
        note.write_text("# Boiler\n\nThe pressure is 1.5 bar.\n", encoding="utf-8")
        done = type_in(name, *arguments, environment=environment)
    else:
        done = type_in(name, *home.arguments, *arguments, environment=environment)
    messages = done.stderr.splitlines()
    if "--explain" in arguments:
        assert messages.pop().startswith("Time (ms): ")
    assert (done.returncode, messages) == (0, [])


@pytest.mark.parametrize(
    "example", [found for text in TEXTS.values() for found in CONSOLE.findall(text)]
)
@pytest.mark.promises_seconds
def test_every_line_of_a_shell_runs(home, example):
    """`./scripts/run` is the present interpreter here: other tests cover the set-up.

    After the end of its input, `serve` has a second to answer.
    """
    assert "./scripts/run" in example
    line = re.sub(r"^\$ ", "", example, flags=re.MULTILINE)
    line = line.replace("./scripts/run", f"{shlex.quote(sys.executable)} -m gateway")
    line = line.replace("sk-...", "''").replace("search ", f"search {shlex.join(home.arguments)} ")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=ROOT, env=home.environment | {"TMPDIR": str(home.root)},
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"memory/.*\.md|MEMORY\.md", done.stdout)


@pytest.mark.parametrize("example", settings())
def test_every_example_of_settings_is_one(home, type_in, example):
    home.config.write_text(example, encoding="utf-8")
    keys = dict.fromkeys(re.findall(r'source: "env", [^{}]*id: "(\w+)"', example), "sk-local")
    done = type_in("config", *home.arguments, environment=home.environment | keys)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_configuration_of_an_mcp_client_gives_it_the_tools(home):
    (block,) = re.findall(r"```json\n(.*?)```", TEXTS["docs/clients.md"], re.DOTALL)
    server = json.loads(block)["mcpServers"]["memory-gateway"]
    assert server["command"].endswith("/.local/bin/memory-gateway")  # as uv and pipx install it
    arguments = ["-m", "gateway", *server["args"], *home.arguments]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=home.environment)
    with (home.root / "log").open("w", encoding="utf-8") as log:
        async with stdio_client(parameters, errlog=log) as pipe, ClientSession(*pipe) as session:
            await session.initialize()
            tools = await session.list_tools()
    assert [tool.name for tool in tools.tools] == ["memory_search", "memory_get"]


def test_no_example_is_left_out():
    """Every fenced block is of a kind that is run here or in a test of its own."""
    kinds = {
        kind for text in TEXTS.values() for kind in re.findall(r"^```(\w+)", text, re.MULTILINE)
    }
    assert kinds == {"console", "json", "json5", "mermaid", "python", "text"}
    assert len(commands()) >= 12
    assert len(settings()) >= 3


def test_the_index_of_the_documentation_names_every_page():
    assert [
        name
        for name in DOCUMENTS
        if f"({name.removeprefix('docs/')})" not in TEXTS["docs/index.md"]
        and name.startswith("docs/")
        and name != "docs/index.md"
    ] == []


def test_the_checks_of_the_doctor_are_documented():
    assert [one for one in get_args(Check) if f"`{one}`" not in TEXTS["docs/operations.md"]] == []
