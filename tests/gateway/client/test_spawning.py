"""A gateway as a child: started, watched and ended, whatever it does."""

from __future__ import annotations

import signal
import sys
from textwrap import dedent

import anyio
import pytest

from gateway import client
from gateway.client import GatewayGoneError, spawn_gateway

pytestmark = pytest.mark.anyio
WAIT_S = 120


def script(code):
    return (sys.executable, "-c", dedent(code))


ECHO = """
    import json, sys
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": sys.argv[1:]}), flush=True)
"""


async def test_arguments_reach_the_child_and_replies_come_back():
    async with spawn_gateway(["--agent", "x"], command=script(ECHO), patience_s=WAIT_S) as gateway:
        assert await gateway.call("any") == ["--agent", "x"]
    assert gateway.process.returncode == 0


async def test_the_environment_and_the_directory_are_those_that_were_given(tmp_path):
    look = """
        import json, os, sys
        sys.stdin.readline()
        seen = [sorted(os.environ), os.getcwd()]
        print(json.dumps({"id": 1, "result": seen}), flush=True)
    """
    async with spawn_gateway(
        command=script(look), environment={"ONLY": "this"}, working_directory=tmp_path
    ) as gateway:
        names, directory = await gateway.call("any")
    assert set(names) - {"LC_CTYPE"} == {"ONLY"}
    assert directory == str(tmp_path)


async def test_a_child_that_dies_takes_open_calls_with_it_and_leaves_its_last_words(monkeypatch):
    monkeypatch.setattr(client, "LAST_OUTPUT_S", WAIT_S)
    die = """
        import sys
        sys.stdin.readline()
        print("the index\\nis gone", file=sys.stderr, end="")
        sys.exit(74)
    """
    async with spawn_gateway(command=script(die)) as gateway:
        with pytest.raises(GatewayGoneError) as caught:
            await gateway.call("any")
    assert str(caught.value) == "The gateway ended with exit code 74.\nthe index\nis gone"


async def test_a_child_that_only_closes_its_output_is_told_apart():
    mute = """
        import os, sys
        sys.stdin.readline()
        os.close(1)
        sys.stdin.read()
    """
    async with spawn_gateway(command=script(mute)) as gateway:
        with pytest.raises(GatewayGoneError, match="still running"):
            await gateway.call("any")


async def test_a_child_that_writes_much_to_standard_error_is_never_held_up():
    chatty = """
        import json, sys
        sys.stdin.readline()
        sys.stderr.write("x" * 100_000 + "\\n" + "line\\n" * 100_000)
        print(json.dumps({"id": 1, "result": "done"}), flush=True)
    """
    async with spawn_gateway(command=script(chatty)) as gateway:
        assert await gateway.call("any", timeout_s=WAIT_S) == "done"
    assert len(gateway.last_words) == 20


async def test_a_child_that_ignores_the_end_of_its_input_is_terminated():
    deaf = 'import time; print("{}", flush=True); time.sleep(60)'
    with anyio.fail_after(WAIT_S):
        async with spawn_gateway(command=script(deaf), patience_s=1.0) as gateway:
            pass
    assert gateway.process.returncode == -signal.SIGTERM


async def test_a_child_that_ignores_everything_is_killed():
    stubborn = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('{"method": "ready"}', flush=True)
        time.sleep(60)
    """
    ready = anyio.Event()
    with anyio.fail_after(WAIT_S):
        async with spawn_gateway(
            command=script(stubborn), patience_s=0.1, notified=lambda *_: ready.set()
        ) as gateway:
            await ready.wait()
    assert gateway.process.returncode == -signal.SIGKILL


async def test_a_caller_that_is_cancelled_leaves_no_child_behind():
    with anyio.CancelScope() as scope:
        async with spawn_gateway(command=script(ECHO), patience_s=WAIT_S) as gateway:
            scope.cancel()
            await anyio.sleep_forever()
    assert gateway.process.returncode == 0


async def test_an_error_of_the_caller_comes_out_as_itself():
    with pytest.raises(KeyError, match="mine"):
        async with spawn_gateway(command=script(ECHO)):
            raise KeyError("mine")
