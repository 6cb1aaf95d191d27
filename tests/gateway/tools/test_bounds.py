"""The limits on words of a request: the last good length passes, one more is an invalid parameter."""

from __future__ import annotations

import msgspec
import pytest

from fakes.each import each
from gateway.agent.conversations import FlushParams, SessionStartParams, SessionUpdatedParams
from gateway.methods import InitializeParams, SyncParams
from gateway.tools.notes import AppendParams, GetParams
from gateway.tools.search import (
    MAX_GLOB_CHARS,
    MAX_GLOBS,
    MAX_KEY_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    SearchParams,
)


@each(
    ("params", "name", "rest", "limit"),
    [
        (SearchParams, "sessionKey", {"query": "q"}, MAX_KEY_CHARS),
        (GetParams, "sessionKey", {"path": "a.md"}, MAX_KEY_CHARS),
        (AppendParams, "sessionKey", {"text": "t"}, MAX_KEY_CHARS),
        (FlushParams, "sessionKey", {}, MAX_KEY_CHARS),
        (SessionStartParams, "sessionKey", {}, MAX_KEY_CHARS),
        (SessionUpdatedParams, "sessionId", {}, MAX_KEY_CHARS),
        (SessionUpdatedParams, "path", {}, MAX_PATH_CHARS),
        (GetParams, "path", {}, MAX_PATH_CHARS),
    ],
)
def test_a_word_has_a_longest_length(params, name, rest, limit):
    assert msgspec.convert({**rest, name: "x" * limit}, params)
    with pytest.raises(msgspec.ValidationError, match=rf"length <= {limit}.*{name}"):
        msgspec.convert({**rest, name: "x" * (limit + 1)}, params)


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_globs_are_bounded_in_length_and_number(name):
    good = ["x" * MAX_GLOB_CHARS] * MAX_GLOBS
    assert msgspec.convert({"query": "q", name: good}, SearchParams)
    for bad in ([*good, "x"], ["x" * (MAX_GLOB_CHARS + 1)]):
        with pytest.raises(msgspec.ValidationError, match=rf"length <= .*{name}"):
            msgspec.convert({"query": "q", name: bad}, SearchParams)


@each(
    ("params", "name"),
    [(SyncParams, "reason"), (InitializeParams, "client"), (InitializeParams, "protocolVersion")],
)
def test_what_is_repeated_in_reports_is_short(params, name):
    assert msgspec.convert({name: "x" * MAX_NAME_CHARS}, params)
    with pytest.raises(msgspec.ValidationError, match=rf"length <= {MAX_NAME_CHARS}.*{name}"):
        msgspec.convert({name: "x" * (MAX_NAME_CHARS + 1)}, params)
