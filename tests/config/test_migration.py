"""Moving keys to where today's OpenClaw accepts them: nothing changes but their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyjson5
import pytest

from config.errors import ConfigInvalidError
from config.migration import Migration, find_moves, is_of_today, migrate_in_force
from config.source.discover import LoadRequest, resolve_includes
from config.source.json5 import parse_json5
from fakes.each import each
from fakes.older_config import older_file

HOME = "plugins.entries.memory-gateway.config"
ROWS = pyjson5.loads(Path(__file__).with_name("documented_keys.json5").read_text(encoding="utf-8"))[
    "rows"
]
SEARCH = "agents.defaults.memorySearch."


def migrate(machine: Any, text: str) -> Migration:
    machine.write(text)
    variables = {"HOME": str(machine.home)}
    found = migrate_in_force(LoadRequest(environment=variables, cwd=machine.cwd))
    assert found is not None
    return found


def test_whatever_is_moved_stays_in_force_with_every_comment_and_nothing_is_left_to_move(machine):
    for seed in range(80):
        text = older_file(ROWS, seed)
        moved = migrate(machine, text)  # compares what is in force, for every agent
        again = migrate(machine, moved.text)
        assert (again.moves, again.text) == ((), moved.text), text
        left_out = {move.node.start for move in moved.moves if move.to is None}
        if not left_out:
            for mark in ("//", "/*"):
                assert moved.text.count(mark) == text.count(mark), text


FEBRUARY = """\
// mine
{
  gateway: {port: 18789}, // the port
  memory: {
    // who searches
    backend: "qmd", // the sidecar
    citations: "on",
    qmd: {
      // all of it
      limits: {maxResults: 4},
      // at the end
    },
  },
  agents: {
    defaults: {
      memorySearch: {
        provider: "openai",
        store: {path: "~/i/{agentId}.sqlite"},
        query: {hybrid: {mmr: {enabled: true}, temporalDecay: {enabled: true}}},
      },
      compaction: {memoryFlush: {prompt: "Write.", softThresholdTokens: 7}},
    },
    list: [{id: "main"}, {id: "ops", memorySearch: {model: "m2", chunking: {tokens: 100}}}],
  },
  memorySearch: {model: "old"},
}
"""


def test_a_file_of_february_keeps_what_it_says_and_its_comments(machine):
    moved = migrate(machine, FEBRUARY)
    after = pyjson5.loads(moved.text)
    assert after["plugins"]["entries"]["memory-gateway"]["config"] == {
        "backend": "qmd",
        "qmd": {"limits": {"maxResults": 4}},
        "search": {
            "store": {"path": "~/i/{agentId}.sqlite"},
            "query": {"decay": {"enabled": True}},
        },
        "compaction": {"memoryFlush": {"prompt": "Write."}},
        "agents": {"ops": {"search": {"chunking": {"tokens": 100}}}},
    }
    assert after["memory"] == {
        "citations": "on",
        "search": {"provider": "openai", "model": "old"},
    }
    assert after["agents"] == {
        "defaults": {"compaction": {"memoryFlush": {"softThresholdTokens": 7}}},
        "list": [{"id": "main"}, {"id": "ops", "memory": {"search": {"model": "m2"}}}],
    }
    assert '// who searches\n          backend: "qmd", // the sidecar\n' in moved.text
    for comment in ("// mine\n", "// the port\n", "// all of it\n", "// at the end\n"):
        assert comment in moved.text
    dropped = {move.place: move.reason for move in moved.moves if move.to is None}
    assert dropped == {f"{SEARCH}query.hybrid.mmr": "it has no effect"}


def test_plain_json_stays_plain_json(machine):
    moved = migrate(
        machine, '{"memory": {"backend": "qmd"}, "agents": {"defaults": {"memorySearch": {}}}}'
    )
    assert json.loads(moved.text)["memory"] == {}
    assert json.loads(moved.text)["plugins"]["entries"]["memory-gateway"] == {
        "config": {"backend": "qmd"}
    }


def test_what_does_not_count_is_left_out_and_says_what_does(machine):
    moved = migrate(
        machine,
        "{memorySearch: {model: 'a'}, memory: {search: {model: 'b'}},"
        " agents: {defaults: {memorySearch: {model: 'c'}}}}",
    )
    after = pyjson5.loads(moved.text)
    assert after["memory"]["search"]["model"] == "b"
    assert after["plugins"]["entries"]["memory-gateway"]["config"]["search"]["model"] == "c"
    (dropped,) = [move for move in moved.moves if move.to is None]
    assert (dropped.place, dropped.reason) == ("memorySearch.model", f"{SEARCH}model counts")


def test_switching_us_off_is_not_taken_for_switching_the_hosts_memory_off(machine):
    moved = migrate(machine, "{agents: {defaults: {memorySearch: {enabled: false}}}}")
    assert pyjson5.loads(moved.text) == {
        "plugins": {"entries": {"memory-gateway": {"config": {"search": {"enabled": False}}}}},
        "agents": {"defaults": {}},
    }


def test_a_value_that_the_host_would_refuse_goes_to_our_own_entry(machine):
    moved = migrate(machine, "{memorySearch: {remote: {apiKey: {source: 'env', id: 'KEY'}}}}")
    (move,) = moved.moves
    assert move.to == (*HOME.split("."), "search", "remote", "apiKey")


def test_extra_paths_with_exclude_leave_the_place_of_the_host_which_does_not_know_it(machine):
    with_exclude = "{memory: {search: {extraPaths: ['a', {path: 'b', exclude: ['/c/']}]}}}"
    moved = migrate(machine, with_exclude)
    (move,) = moved.moves
    assert move.to == (*HOME.split("."), "search", "extraPaths")
    without = "{memory: {search: {extraPaths: ['a', {path: 'b', pattern: '*.md'}]}}}"
    assert migrate(machine, without).moves == ()


def test_references_to_variables_are_moved_as_they_are(machine):
    moved = migrate(
        machine, "{memorySearch: {remote: {apiKey: '${NOT_SET_HERE}'}, model: '$${X}'}}"
    )
    assert "apiKey: '${NOT_SET_HERE}'" in moved.text
    assert "model: '$${X}'" in moved.text


def test_an_included_file_is_named_and_left_alone(machine):
    included = machine.write(
        "{backend: 'qmd', scope: {default: 'allow'}}", machine.state / "m.json5"
    )
    moved = migrate(machine, "{memory: {$include: 'm.json5', append: {enabled: true}}}")
    assert [move.place for move in moved.moves] == ["memory.append.enabled"]
    assert {(move.place, move.node.source.path) for move in moved.elsewhere} == {
        ("memory.backend", included),
        ("memory.scope", included),
    }
    assert "$include: 'm.json5'" in moved.text


@each(
    ("text", "said"),
    [
        ("{memory: {backend: 'qmd'}, plugins: {entries: 5}}", "plugins.entries is no object"),
        ("{memory: {backend: 'builtin',\nbackend: 'qmd'}}", "appears twice"),
        ("{memorySearch: {model: 5}}", "found a number, allowed is a string"),
        ("{memory: {backend: 5}}", "found a number"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_its_place(machine, text, said):
    with pytest.raises(ConfigInvalidError) as caught:
        migrate(machine, text)
    assert said in str(caught.value)
    assert str(machine.config) in str(caught.value)


def test_only_a_file_that_todays_host_wrote_is_one_of_today(parse):
    for version, expected in (("2026.9.6", True), ("2026.10.1", True), ("2026.2.9", False)):
        root = parse(f"{{meta: {{lastTouchedVersion: '{version}'}}}}")
        assert is_of_today(root) is expected
    assert not is_of_today(parse("{}"))
    assert not is_of_today(parse("{meta: {lastTouchedVersion: 2026.9}}"))


def test_a_file_that_the_host_accepts_has_nothing_to_move(parse: Callable[[str], Any]):
    text = """{memory: {citations: 'on', search: {model: 'm', store: {vector: {enabled: false}}}},
      agents: {defaults: {compaction: {memoryFlush: {model: 'x'}}},
               entries: {a: {memory: {search: {sources: ['memory']}}}}},
      plugins: {entries: {'memory-gateway': {config: {backend: 'qmd', dreaming: {a: 1}}}}},
      models: {providers: {x: {anything: 1}}}, channels: {y: []}}"""
    assert find_moves(resolve_includes(parse_json5(text.encode(), Path("f"))), {}) == ()
