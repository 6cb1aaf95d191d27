"""A real process on its real descriptors: claiming them, and how it ends."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path

import pytest

SERVE = """
import os, subprocess, sys
import anyio, msgspec, structlog
from gateway.rpc.connection import ClientConnection, Dispatcher
from gateway.rpc.transport import claim_stdio
from gateway.rpc.registry import Method, MethodRegistry, NoParams
from gateway.rpc.transport import DescriptorReader, DescriptorWriter

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))

class Size(msgspec.Struct, forbid_unknown_fields=True):
    size: int

async def noisy(params, context):
    print("stray print")
    sys.stdout.write("half a line")
    sys.stdout.flush()
    os.write(1, b"raw write to one")
    subprocess.run(["sh", "-c", "echo child says hello; cat; ls -l /proc/self/fd"], check=True)
    return "quiet"

async def big(params, context):
    return "x" * params.size

async def resident(params, context):
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def forever(params, context):
    await anyio.sleep_forever()

async def main():
    claimed = claim_stdio()
    connection = ClientConnection(
        DescriptorReader(claimed.input), DescriptorWriter(claimed.output), shutdown=anyio.Event()
    )
    await connection.serve(
        lambda connection: Dispatcher(MethodRegistry([
            Method("noisy", NoParams, noisy),
            Method("big", Size, big),
            Method("resident", NoParams, resident),
            Method("forever", NoParams, forever),
        ]), connection)
    )

anyio.run(main)
"""

CLAIM = """
import json, os, sys
from gateway.rpc.transport import claim_stdio

claimed = claim_stdio()
facts = {
    "private": min(claimed.input, claimed.output) > 2,
    "inherited": [os.get_inheritable(fd) for fd in (claimed.input, claimed.output)],
    "standard inherited": [os.get_inheritable(fd) for fd in (0, 1, 2)],
    "stdin is empty": os.read(0, 1) == b"",
    "one is two": os.path.samestat(os.fstat(1), os.fstat(2)),
    "input": os.read(claimed.input, 100).decode(),
}
os.write(claimed.output, b"frame")
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(facts, file)
"""


def call(request_id: int, method: str, **params: object) -> bytes:
    request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(request).encode() + b"\n"


def test_the_protocol_keeps_its_descriptors_to_itself(run_python, tmp_path: Path):
    pipe = subprocess.PIPE
    process = run_python(CLAIM, str(tmp_path / "facts"), stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = process.communicate(b"request", timeout=60)
    assert json.loads((tmp_path / "facts").read_text(encoding="utf-8")) == {
        "private": True,
        "inherited": [False, False],
        "standard inherited": [True, True, True],
        "stdin is empty": True,
        "one is two": True,
        "input": "request",
    }
    assert (out, err) == (b"frame", b"")


@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "02", "12", "012"])
def test_descriptors_that_are_closed_at_start_count_as_the_null_device(
    run_python, tmp_path, closed
):
    facts_path = tmp_path / "facts"
    redirections = " ".join(f"{descriptor}>&-" for descriptor in closed)
    script = (
        "import os, sys; os.execl('/bin/sh', 'sh', '-c', "
        f'\'exec "$0" "$@" {redirections}\', sys.executable, *sys.argv[1:])'
    )
    pipe = subprocess.PIPE
    process = run_python(script, "-c", CLAIM, str(facts_path), stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = process.communicate(b"request", timeout=60)
    facts = json.loads(facts_path.read_text(encoding="utf-8"))
    assert facts["private"] is True
    assert facts["stdin is empty"] is True
    assert facts["one is two"] is True
    assert facts["standard inherited"] == [True, True, True]
    assert facts["input"] == ("" if "0" in closed else "request")
    assert (out, err) == (b"" if "1" in closed else b"frame", b"")


def test_prints_and_children_cannot_tear_a_frame(run_python):
    pipe = subprocess.PIPE
    process = run_python(SERVE, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = process.communicate(call(1, "noisy") + call(2, "noisy"), timeout=60)
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == [1, 2]
    assert [json.loads(line)["result"] for line in out.splitlines()] == ["quiet", "quiet"]
    for stray in (b"stray print", b"half a line", b"raw write to one", b"child says hello"):
        assert err.count(stray) == 2
    assert b"pipe:" in err, "the child sees its standard error"
    assert process.returncode == 0


def test_piped_requests_are_all_answered_before_the_process_ends(run_python):
    pipe = subprocess.PIPE
    process = run_python(SERVE, stdin=pipe, stdout=pipe, stderr=pipe)
    requests = b"".join(call(n, "big", size=n) for n in range(2000))
    out, err = process.communicate(requests, timeout=60)
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(2000))
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("standard_input", ["file", "null"])
def test_input_from_a_file_and_output_to_one_work(run_python, tmp_path: Path, standard_input):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(call(1, "big", size=100_000) if standard_input == "file" else b"")
    path = source if standard_input == "file" else Path(os.devnull)
    with path.open("rb") as stdin, target.open("wb") as stdout:
        process = run_python(SERVE, stdin=stdin, stdout=stdout)
        assert process.wait(timeout=60) == 0
    lines = target.read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ([1] if standard_input == "file" else [])


def flood(process: subprocess.Popen[bytes], data: bytes) -> int:
    """Write until the process has read nothing for a second; return how much it took."""
    assert process.stdin is not None
    descriptor = process.stdin.fileno()
    os.set_blocking(descriptor, False)
    written = 0
    while select.select([], [descriptor], [], 1.5)[1]:
        try:
            written += os.write(descriptor, data)
        except BlockingIOError:
            continue
    return written


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    fields = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("pending", ["answers", "work"])
@pytest.mark.promises_seconds
def test_a_client_that_never_reads_costs_little_and_its_leaving_ends_the_process(
    run_python, pending
):
    pipe = subprocess.PIPE
    process = run_python(SERVE, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    os.write(process.stdin.fileno(), call(0, "resident"))
    at_rest = json.loads(process.stdout.readline())["result"]
    request = call(1, "big", size=20_000) if pending == "answers" else call(1, "forever")
    flood(process, request * 100)
    assert resident_bytes(process) - at_rest < 15_000_000
    assert process.poll() is None
    left_at = time.monotonic()
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert time.monotonic() - left_at < 2
    process.stdout.close()


def test_a_client_that_vanishes_ends_the_process(run_python):
    pipe = subprocess.PIPE
    process = run_python(SERVE, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    os.write(process.stdin.fileno(), call(1, "forever") + call(2, "big", size=1))
    assert process.wait(timeout=60) == 0
    process.stdin.close()


def test_the_package_imports_little_and_nothing_of_the_floors_below(run_python):
    script = (
        "import sys; import gateway.rpc.connection, gateway.rpc.transport, gateway.rpc.transport; "
        "print(*sorted(name for name in sys.modules))"
    )
    process = run_python(script, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=60)
    names = set(out.decode().split())
    assert not names & {"backends", "providers", "typer", "numpy", "apsw", "watchdog", "stamina"}
    assert {name for name in names if name.split(".")[0] == "config"} <= {
        "config",
        "config.errors",
        "config.runtime",
        "config.runtime.decoding",
        "config.runtime.logs",
        "config.runtime.tasks",
    }
