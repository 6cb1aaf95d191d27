"""Every string of a client or a file name is data: hypothesis properties through the real pipe."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

WAIT_S = 60
INVALID_PARAMS = -32602
OUTCOMES = {"ok", "empty", "denied"}

SYNTAX = [
    '"', "'", "*", "NEAR(", "^", "col:", "-", "+", "(", ")", "{", "}", "AND", "OR", "NOT", "--", ";", "/*",
    "\x00", "\\", "%", "_", "$(id)", "`id`", "|", "&", "\n", "\r", "\x1b[31m", "\u2028", "\ufeff", "\u202e",
    "\ufffd", "🦅", "茶", "е\u0301", "' OR 1=1 --", '"); DROP TABLE chunks; --', "chunks_fts:", "rowid:1", "lex:",
    "greenhouse", "sensor",
]  # fmt: skip
words = st.one_of(st.sampled_from(SYNTAX), st.text(max_size=12))
queries = st.lists(words, min_size=1, max_size=8).map(" ".join)
globs = st.lists(
    st.one_of(st.sampled_from(["*", "**", "?", "[", "]", "[!", "{a,b}", "{", "}", "/", "..", *SYNTAX])),
    min_size=1, max_size=8,
).map("".join)  # fmt: skip


class Pipe:
    """One gateway for all examples, so that a later one shows the damage of an earlier one."""

    def __init__(self, home):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "serve", *home.arguments],
            env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._number = 0

    def ask(self, method, params):
        """Returns the frame that answers; anything else but progress on the line is a failure."""
        self._number += 1
        call = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        watchdog = threading.Timer(WAIT_S, self.process.kill)
        watchdog.start()
        self.process.stdin.write(json.dumps(call).encode() + b"\n")
        self.process.stdin.flush()
        while "id" not in (answer := json.loads(self.process.stdout.readline())):
            assert answer["method"] == "notifications/progress"
        watchdog.cancel()
        assert answer["id"] == self._number
        return answer

    def survives(self):
        found = self.ask("memory_search", {"query": "greenhouse sensor"})["result"]["results"]
        status = self.ask("status", {})["result"]
        return found[0]["path"] == "memory/2026-02-01.md" and status["files"] == 4


@pytest.fixture
def pipe(home):
    made = Pipe(home)
    with made.process:
        made.ask("sync", {})
        yield made
        assert made.survives()
        made.process.stdin.close()
        assert made.process.wait(WAIT_S) == 0


def check_search(pipe, params):
    answer = pipe.ask("memory_search", params)
    if "error" in answer:
        assert answer["error"]["code"] == INVALID_PARAMS, answer
        assert "blank" in answer["error"]["message"], answer
    else:
        assert answer["result"]["outcome"] in OUTCOMES, answer


def test_no_query_is_syntax(pipe):
    @given(queries)
    @example('"' * 999 + "greenhouse")
    @example("NEAR(a b, 5) AND col:x OR ^y*")
    @example("?!.,;:-()[]{}")
    @example("\x00")
    @example("\ud83d")
    @example("sensor " * 15_000)
    @example("x" * 100_000)
    @example("茶" * 100_000)
    @example("(" * 100_000)
    def property_(query):
        check_search(pipe, {"query": query, "minScore": 0})

    property_()


def test_a_query_of_syntax_still_finds_its_words(pipe):
    for query in (
        '"greenhouse" AND sensor*',
        "^greenhouse NEAR(sensor)",
        "col:greenhouse -sensor;",
    ):
        results = pipe.ask("memory_search", {"query": query})["result"]["results"]
        assert results[0]["path"] == "memory/2026-02-01.md"


def test_no_glob_session_key_or_reason_is_more_than_a_word(pipe):
    @given(st.lists(globs, max_size=3), st.lists(globs, max_size=3), queries)
    @example(["**/" * 300], ["{" * 500 + "}" * 500], "a")
    @example(["{a,b}" * 150], ["[" * 1000], "a")
    @example(["*a" * 400], ["?" * 1000], "a")
    def property_(include, exclude, word):
        params = {"query": "greenhouse", "include": include, "exclude": exclude, "sessionKey": word}
        check_search(pipe, params)
        started = pipe.ask("session_start", {"sessionKey": word})
        assert started.get("result") or started["error"]["code"] == INVALID_PARAMS
        pipe.ask("memory_flush", {"sessionKey": word})
        pipe.ask("session_updated", {"sessionId": word})
        pipe.ask("sync", {"reason": word, "wait": False})
        assert "result" in pipe.ask("memory_get", {"path": f"memory/{word}.md"})

    property_()


def test_no_name_of_a_file_is_more_than_a_name(home):
    names = [
        "memory/quote'\".md", "memory/$(touch owned).md", "memory/`touch owned`.md",
        "memory/a;touch owned;.md", "memory/a|b&c.md", "memory/new\nline.md", "memory/-rf.md",
        "memory/--help.md", "memory/'; DROP TABLE chunks; --.md", "memory/%s%n{0}.md",
        "memory/[a]*?{b,c}.md", "memory/back\\slash.md", "memory/\x1b[31m.md", "memory/\u202egpj.md",
    ]  # fmt: skip
    for number, name in enumerate(names):
        home.write(name, f"# Kestrel\n\n- kestrel{number}\n")
    pipe = Pipe(home)
    with pipe.process:
        pipe.ask("sync", {})
        for number, name in enumerate(names):
            (hit,) = pipe.ask("memory_search", {"query": f"kestrel{number}"})["result"]["results"]
            assert hit["path"] == name
            text = pipe.ask("memory_get", {"path": name})["result"]["text"]
            assert text.endswith(f"- kestrel{number}\n")
        pipe.process.stdin.close()
        pipe.process.wait(WAIT_S)
    assert list(home.root.rglob("owned")) == []


@pytest.mark.parametrize(
    "agent", ["../../etc", "a; touch owned", "$(touch owned)", "a\nb", "'\"", "é", "-rf"]
)
def test_an_agents_id_is_a_plain_name_in_every_path(home, agent):
    done = home.run("index", f"--agent={agent}", "--json")
    assert done.returncode == 0, done.stderr
    made = [path.name for path in (home.state / "memory").iterdir()]
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-.") for name in made), made
    assert list(home.root.rglob("owned")) == []
