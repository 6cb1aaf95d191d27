"""Agent ids and the agents that a file lists."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loading import AgentEntry, ConfigFile, listed_agents, normalize_agent_id
from fakes.each import each


@each(
    ("text", "agent_id"),
    [
        ("main", "main"),
        ("Work", "work"),
        ("work_2-b", "work_2-b"),
        ("0", "0"),
        (" Ops ", "ops"),
        ("My Agent!", "my-agent"),
        ("a//b..c", "a-b-c"),
        ("--x--", "x"),
        ("_x", "_x"),
        ("-", "main"),
        ("", "main"),
        ("   ", "main"),
        ("\u4ee3\u7406", "main"),
        ("caf\u00e9", "caf"),
        ("../../etc", "etc"),
        ("a\nb", "a-b"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 64),
        ("{agentId}", "agentid"),
    ],
)
def test_an_id_is_normalised(text, agent_id):
    assert normalize_agent_id(text) == agent_id


@given(st.text(max_size=100))
def test_a_normalised_id_is_safe_in_a_path_and_stays_as_it_is(text):
    agent_id = normalize_agent_id(text)
    assert re.fullmatch(r"[a-z0-9_-]{1,64}", agent_id)
    assert normalize_agent_id(agent_id) in (agent_id, agent_id.rstrip("-"))


def entry(agent_id: str, *, default: bool = False) -> AgentEntry:
    return AgentEntry(agent_id, (("agents", "list", 0),), default)


@each(
    ("entries", "agent_id"),
    [
        ((), "main"),
        ((entry("a"), entry("b")), "a"),
        ((entry("a"), entry("b", default=True), entry("c", default=True)), "b"),
    ],
)
def test_the_default_agent_is_the_marked_one_else_the_first_else_main(entries, agent_id):
    assert ConfigFile(agents=entries).default_agent == agent_id


def test_agents_are_listed_from_the_list_and_from_the_map_of_later_releases(parse, reading):
    root = parse("""{agents: {
      entries: {Extra: {default: true}, work: {}},
      list: [{id: "Main"}, {id: "work"}],
    }}""")
    listed = {e.id: (e.prefixes, e.is_default) for e in listed_agents(root, reading)}
    assert listed == {
        "main": ((("agents", "list", 0),), False),
        "work": ((("agents", "list", 1), ("agents", "entries", "work")), False),
        "extra": ((("agents", "entries", "Extra"),), True),
    }
    assert reading.remarks == []


def test_of_two_agents_with_one_id_the_first_counts_with_a_warning(parse, reading):
    root = parse('{agents: {list: [{id: "a"},\n {id: " A ", default: true}]}}')
    (only,) = listed_agents(root, reading)
    assert only == AgentEntry("a", (("agents", "list", 0),), is_default=False)
    (remark,) = reading.remarks
    assert remark.warning.path == "agents.list[1]"
    assert remark.warning.line == 2
    assert "already listed above" in remark.warning.message


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{agents: 1}",
        "{agents: {list: {}}}",
        "{agents: {list: [1, null, {}, {id: 5}]}}",
        "{agents: {entries: []}}",
        "{agents: {entries: {a: null}}}",
    ],
)
def test_what_is_no_agent_is_not_listed(parse, reading, text):
    assert listed_agents(parse(text), reading) == ()
