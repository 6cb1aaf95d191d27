"""`memory_gateway.client` in use by a program, and the schemas of every method against the answers of the process."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import get_type_hints

import anyio
import jsonschema
import msgspec
import pytest

from backends.builtin.searching import Explained
from backends.interface import Hit, ReadAnswer, SearchAnswer
from backends.ranking.fusion import LaneShare, LineShare
from fakes.each import each
from gateway.methods import all_schemas, types_by_method
from gateway.rpc.connection import ConnectionLimits
from gateway.tools.notes import AppendResult
from gateway.tools.search import RecalledNote, RecallResult
from gateway.tools.status import StatusResult
from memory_gateway import client
from memory_gateway.client import (
    AsyncMemoryClient,
    GatewayEndedError,
    GatewayError,
    LateAnswerError,
    MemoryClient,
    RefusedError,
)

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def options(home):
    home.run("index")  # a search waits for the first index only so long
    return {
        "workspace": home.workspace,
        "state_dir": home.state,
        "config": home.config,
        "environment": home.environment,
        "timeout_s": 120,
    }


def test_a_program_searches_reads_writes_recalls_and_looks(options):
    with MemoryClient(write=True, **options) as memory:
        first = memory.search("who services the boiler?", max_results=1).results[0]
        assert (first.path, first.source) == ("MEMORY.md", "memory")
        assert "Hartmann" in memory.get(first.path, first_line=first.start_line).text
        assert memory.get("memory/none.md").status == "not_found"
        written = memory.append("The kettle is descaled.")
        assert "kettle" in memory.get(written.path).text
        assert memory.search("kettle").results[0].path == written.path
        assert memory.recall("thanks!").reason == "small_talk"
        assert memory.status().files == 5


def test_whatever_is_refused_is_one_error_with_a_kind(options, home):
    home.configure({"memory": {"scope": {"default": "allow", "rules": [
        {"action": "deny", "match": {"chatType": "group"}}]}}})  # fmt: skip
    kinds = []
    with MemoryClient(session_key="agent:main:chat:group:1", **options) as memory:
        for ask in (
            lambda: memory.search("boiler"),
            lambda: memory.get("MEMORY.md"),
            lambda: memory.append("x"),
            lambda: memory.recall("When is the boiler serviced?"),
            lambda: memory.search(""),
            lambda: memory.call("memory_serch", {}),
        ):
            with pytest.raises(RefusedError) as refused:
                ask()
            assert refused.value.message
            kinds.append(refused.value.kind)
    denied = ["denied", "denied", "disabled", "denied"]
    assert kinds == [*denied, "invalid_params", "method_not_found"]
    with MemoryClient(**options) as memory, pytest.raises(RefusedError) as outside:
        memory.get("../secret.md")
    assert outside.value.kind == "path_not_allowed"


def test_a_second_program_joins_the_gateway_of_the_first_and_threads_share_one(options):
    with MemoryClient(**options) as one, MemoryClient(**options) as other:
        assert one.status().pid == other.status().pid
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(one.search("boiler"))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({answer.results[0].path for answer in found}) == 1 and len(found) == 4


def test_a_gateway_that_reads_nothing_keeps_nobody_waiting_beyond_the_deadline(options):
    """A pipe takes less than these requests: a thread that wrote into it directly would block."""
    late = []

    def ask_much(memory):
        for _ in range(3):
            try:
                memory.recall("When is the boiler serviced? " * 4_000)
            except LateAnswerError as error:
                late.append(error)

    with MemoryClient(**{**options, "timeout_s": 120}) as memory:
        gateway = memory._gateway._process
        memory._timeout_s = 0.5
        gateway.send_signal(signal.SIGSTOP)
        asking = [threading.Thread(target=ask_much, args=(memory,), daemon=True) for _ in range(2)]
        for one in asking:
            one.start()
        for one in asking:
            one.join(60)
        assert len(late) == 6
        closing = threading.Thread(target=memory.close, daemon=True)
        closing.start()
        closing.join(60)
        gateway.send_signal(signal.SIGCONT)  # for a client that would wait for ever
        assert gateway.poll() is not None


def test_a_call_that_the_gateway_would_not_take_is_refused_at_once(options):
    assert ConnectionLimits().line_bytes == client._LONGEST_LINE_BYTES
    with MemoryClient(**options) as memory:
        for ask in (memory.recall, memory.search):
            with pytest.raises(RefusedError, match="Send less at once") as refused:
                ask("boiler " * 600_000)
            assert refused.value.kind == "line_too_long"
        around = len(client._line(id=9, method="recall", params={"prompt": ""}))
        most = "-" * (client._LONGEST_LINE_BYTES - around)
        assert memory.recall(most).reason == "small_talk"


async def test_nor_does_it_hold_up_the_event_loop(options):
    async with AsyncMemoryClient(**options) as memory:
        gateway = memory._gateway._process
        gateway.send_signal(signal.SIGSTOP)
        continued = threading.Timer(60, gateway.send_signal, [signal.SIGCONT])
        continued.start()
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(memory.recall("glacier " * 20_000)) for _ in range(3)]
            await asyncio.sleep(0)
            assert continued.is_alive()  # the calls were made and the loop goes on
            gateway.send_signal(signal.SIGCONT)
            continued.cancel()
        assert all(one.result().notes == () for one in asked)


def test_ctrl_c_is_for_the_program_and_not_for_its_gateway(options):
    """A terminal sends it to all processes of the group."""
    program = (
        "import os, pathlib, signal, sys\n"
        "from memory_gateway.client import MemoryClient\n"
        "with MemoryClient(workspace=sys.argv[1], state_dir=sys.argv[2], timeout_s=120) as memory:\n"
        "    try:\n"
        "        os.killpg(0, signal.SIGINT)\n"
        "        memory.call('sync')\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
        "    for _ in range(9):\n"
        "        print(memory.search('boiler').results[0].path)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, options["workspace"], options["state_dir"]], start_new_session=True,
        env=options["environment"] | {"PYTHONPATH": str(ROOT)}, capture_output=True, encoding="utf-8", timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "MEMORY.md\n" * 9


def test_a_gateway_that_cannot_start_says_why(options, tmp_path):
    options["workspace"] = tmp_path / "nowhere"
    with pytest.raises(GatewayEndedError, match="exit code 78"), MemoryClient(**options):
        pass


async def test_the_same_without_waiting(options):
    async with AsyncMemoryClient(**options) as memory:
        answers = await asyncio.gather(*(memory.search("boiler") for _ in range(3)))
        assert {one.results[0].path for one in answers} == {"MEMORY.md"}
        assert "Hartmann" in (await memory.get("MEMORY.md")).text
        with pytest.raises(RefusedError):
            await memory.append("not permitted")
        assert (await memory.status()).enabled


@each("rounds", [0, 1, 2, 20])
@each("leave", ["task", "scope"])
def test_who_is_cancelled_leaves_no_gateway_behind(options, rounds, leave):
    """The client may be starting or in use; a task cancels it, or a scope, which cancels each step of the end."""

    async def use(memory):
        async with memory:
            await asyncio.sleep(3600)

    async def main():
        scope = anyio.CancelScope()

        async def within():
            with scope:
                await use(AsyncMemoryClient(**options))

        task = asyncio.create_task(within())
        for _ in range(rounds + 1):
            await asyncio.sleep(0)
        (task if leave == "task" else scope).cancel()
        await asyncio.wait([task])

    asyncio.run(main())  # threads of the loop have ended after it
    assert not gateways_of(options["workspace"])


def gateways_of(workspace):
    """Returns the command lines of children of this process that serve the workspace."""
    listed = (one.read_text("ascii").split() for one in Path("/proc/self/task").glob("*/children"))
    lines = []
    for pid in (pid for pids in listed for pid in pids):
        with suppress(FileNotFoundError):  # it ended since it was listed
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return [line for line in lines if os.fsencode(workspace) in line]


async def test_a_call_that_is_cancelled_while_the_client_closes_is_cancelled(options):
    async with AsyncMemoryClient(**options) as memory:
        process = memory._gateway._process
        process.send_signal(signal.SIGSTOP)
        asked = asyncio.create_task(memory.search("boiler"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(memory.close())
        while memory._gateway is not None:
            await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        process.send_signal(signal.SIGCONT)
        await closing


async def test_nor_does_an_answer_that_comes_with_the_cancellation_undo_it(options):
    async with AsyncMemoryClient(**options) as memory:
        asked = [asyncio.create_task(memory.search("boiler")) for _ in range(5)]
        await asyncio.sleep(0)
        memory._end()  # in this thread, so that all threads learn of it in the next rounds
        for one in asked:
            if not one.cancel():
                break
            await asyncio.sleep(0)
        done = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert [one.cancelling() for one in asked] == [one.cancelled() for one in asked]


def test_a_client_that_is_open_is_not_opened_again(options):
    with MemoryClient(**options) as memory:
        with pytest.raises(GatewayError, match="open already"), memory:
            pass
        assert memory.search("boiler").results


def test_a_client_may_wait_without_end(options):
    with MemoryClient(**options | {"timeout_s": math.inf}) as memory:
        assert memory.search("boiler").results


@each("name", ["sources", "include", "exclude", "tags"])
def test_a_text_in_place_of_a_list_is_refused(options, name):
    with MemoryClient(**options) as memory, pytest.raises(RefusedError, match=name):
        memory.search("boiler", **{name: "memory"})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (client.Passage, Hit),
        (client.Passages, SearchAnswer),
        (client.NoteText, ReadAnswer),
        (client.Written, AppendResult),
        (client.Recalled, RecallResult),
        (client.RecalledPlace, RecalledNote),
        (client.MemoryStatus, StatusResult),
    ],
)
def test_the_client_knows_no_field_that_the_gateway_does_not_have(ours, theirs):
    known = {field.encode_name for field in msgspec.structs.fields(theirs)}
    assert {field.encode_name for field in msgspec.structs.fields(ours)} <= known


def test_the_program_of_the_documentation_runs(home):
    text = (ROOT / "docs/programs.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len(program.strip().splitlines()) <= 10
    notes = home.root / "notes"
    notes.mkdir()
    (notes / "boiler.md").write_text("# Boiler\n\nServiced by Hartmann.\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=home.root, env=home.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "boiler.md:1" in done.stdout and "Hartmann" in done.stdout


PARAMS = {
    "initialize": {"client": "test", "operator": True},
    "memory_search": {"query": "boiler", "explain": True},
    "memory_get": {"path": "MEMORY.md"},
    "memory_append": {"text": "The kettle is descaled."},
    "recall": {"prompt": "When is the boiler serviced?"},
    "session_start": {"sessionKey": "agent:main:main"},
    "memory_flush": {
        "sessionKey": "agent:main:main",
        "totalTokens": 180000,
        "contextWindow": 200000,
        "compactionCount": 0,
    },
    "memory_flush_done": {"sessionKey": "agent:main:main", "compactionCount": 0},
    "session_updated": {"sessionId": "none"},
    "forget": {"path": "memory/none.md"},
    "status": {"deep": True},
}


async def test_every_answer_of_the_process_is_as_its_schema_says(home):
    printed = all_schemas()
    seen = set()
    async with home.gateway("--write") as gateway:
        greeting = await gateway.call("initialize", PARAMS["initialize"])
        ours = {one for one in greeting["capabilities"]["methods"] if "/" not in one} - {"ping"}
        assert ours == set(types_by_method())
        for method in (*sorted(ours - {"shutdown"}), "shutdown"):
            params = PARAMS.get(method, {})
            check(printed, printed["methods"][method]["params"], params)
            answer = await gateway.call(method, params)
            check(printed, printed["methods"][method]["result"], answer)
            seen.add(method)
    assert seen == set(types_by_method())


SUMMED_UP = {"initialize", "sync", "status", "metrics", "overview", "shutdown"}
"""The methods of whose answers the page describes the important part, and `memory-gateway schema` the rest."""


@each("method", sorted(set(types_by_method()) - SUMMED_UP))
def test_the_page_of_the_protocol_has_every_parameter_and_every_member_of_an_answer(method):
    schemas = all_schemas()
    names = {name for one in schemas["methods"][method].values() for name in members(schemas, one)}
    if method == "memory_search":
        parts = (Explained, LaneShare, LineShare)
        names.update(name for part in parts for name in get_type_hints(part))
    page = ROOT.joinpath("docs/protocol.md").read_text(encoding="utf-8")
    missing = {name for name in names if not re.search(rf"[`\"]{re.escape(name)}[`\"]", page)}
    assert not missing, f"docs/protocol.md lacks what {method} takes or answers"


def members(schemas, schema):
    """Yields the names of all members below a schema, at any depth."""
    if "$ref" in schema:
        schema = schemas["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    for name, one in schema.get("properties", {}).items():
        yield name
        yield from members(schemas, one)
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from members(schemas, schema[part])
    for one in (*schema.get("anyOf", ()), *schema.get("prefixItems", ())):
        yield from members(schemas, one)


async def test_an_explanation_says_what_its_type_says(home):
    """The schema leaves its type open: its content belongs to the ranking."""
    async with home.gateway() as gateway:
        params = {"query": "who services the boiler in August?", "explain": True}
        answer = await gateway.call("memory_search", params)
    hints = set(get_type_hints(Explained))
    for hit in answer["results"]:
        assert set(hit["explain"]) <= hints
        assert hints - set(hit["explain"]) <= {"time", "links"}


def check(printed, schema, value):
    jsonschema.validate(value, {**schema, "$defs": printed["$defs"]})
