"""The server's answers are read correctly, whatever their content."""

from __future__ import annotations

import json

import anyio
import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st

from backends.qmd.process import QmdUnavailableError
from backends.qmd.server import ResultRow, WarmServer, ask, question_for, rows_of_answer
from backends.qmd.sidecar import open_sidecar
from fakes.each import each
from fakes.qmd import qmd_settings

ROW = {"docid": "#c989e6", "score": 0.5, "file": "qmd://mem/a%20b.md", "line": 2, "snippet": "["}
PLAIN = ResultRow("mem", "a b.md", 0.5, 2)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def test_an_address_is_decoded():
    assert rows_of_answer({"results": [ROW]}) == [PLAIN]


def test_no_hits_is_an_answer():
    assert rows_of_answer({"results": []}) == []


@each("answer", [{}, [], None, {"results": None}, {"error": "x"}])
def test_no_answer_is_not_an_empty_one(answer):
    assert rows_of_answer(answer) is None


def test_a_score_of_zero_is_a_hit_and_a_senseless_score_is_zero():
    scores = [0, -1, 7, None, "x", float("nan"), True]
    rows = rows_of_answer({"results": [{**ROW, "score": score} for score in scores]})
    assert [row.score for row in rows] == [0, 0, 1, 0, 0, 0, 0]


def test_rows_that_name_no_file_are_left_out():
    rows = rows_of_answer(
        {"results": [{}, {"file": 3}, {"file": "qmd://"}, {"file": "qmd://c/"}, 5, ROW]}
    )
    assert rows == [PLAIN]


def test_an_address_without_scheme_is_understood():
    assert rows_of_answer({"results": [{"file": "//mem/x/y.md"}]}) == [
        ResultRow("mem", "x/y.md", 0.0, None)
    ]


@given(
    st.lists(st.dictionaries(st.sampled_from(["file", "score", "line"]), values, max_size=3) | values)
)  # fmt: skip
def test_any_json_gives_rows_that_can_be_used(results):
    for row in rows_of_answer({"results": json.loads(json.dumps(results))}):
        assert row.collection
        assert row.path
        assert 0 <= row.score <= 1
        assert row.line is None or row.line > 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"[ {"), (200, b"<html>"), (200, b"{}"), (200, b""), (500, b"{}")],
)
async def test_a_broken_answer_of_the_server_is_a_failure_and_never_an_empty_answer(
    status, body, tmp_path, environment, qmd_command
):
    sidecar = await open_sidecar(qmd_settings(tmp_path, qmd_command), environment)

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)))
            await stream.send(body or b"\n")

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, answer)
        server = WarmServer(sidecar)
        server.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(QmdUnavailableError) as caught:
            await ask(server, question_for("boiler", "search"), ("notes",), timeout_s=30)
        tasks.cancel_scope.cancel()
    assert caught.value.cause == "bad_answer"
