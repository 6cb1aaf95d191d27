"""Clients of the socket that send malformed and unfinished lines, and their effects on the client on the pipe."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from gateway.ownership.owner import read_owner
from gateway.rpc.connection import ConnectionLimits
from gateway.rpc.wire import Malformed, decode_line

pytestmark = pytest.mark.anyio

LIMITS = ConnectionLimits()
HALF = b'{"jsonrpc":"2.0","id":1,"method":"memory_search","params":{"query":"' + b"x" * 3_900_000


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def send_halves(path: str, stack: ExitStack, number: int) -> list[socket.socket]:
    clients = []
    for _ in range(number):
        client = stack.enter_context(socket.socket(socket.AF_UNIX))
        client.connect(path)
        client.sendall(HALF)
        clients.append(client)
    return clients


@pytest.mark.promises_seconds
def test_a_line_that_is_cut_off_costs_no_more_than_a_whole_one():
    for line in (HALF, HALF + b"\\ud83d", b'["\\ude00' + HALF, HALF + b'"}} x'):
        started = time.perf_counter()
        assert isinstance(decode_line(line, batch_members=LIMITS.batch_members), Malformed)
        assert time.perf_counter() - started < 0.06


async def test_half_lines_of_a_hundred_clients_are_bounded_and_hold_no_search(home):
    async with home.gateway() as owner:
        await owner.call("sync")
        record = read_owner(home.state / "memory/main.sqlite.lock")
        before = resident_bytes(owner.process.pid)
        with ExitStack() as stack:
            clients = await to_thread.run_sync(send_halves, record.socket, stack, 100)
            found = await owner.call("memory_search", {"query": "boiler"})
            assert [hit["path"] for hit in found["results"]] == ["MEMORY.md"]
            growth = resident_bytes(owner.process.pid) - before
            assert growth < LIMITS.all_lines_bytes + 48 * 1024 * 1024
            for client in clients[:60]:
                client.close()
            with anyio.fail_after(10):
                await owner.call("memory_search", {"query": "boiler"})
