"""`doctor` as people and programs see it."""

from __future__ import annotations

import re


def test_a_sound_memory_ends_with_zero_and_says_what_was_looked_at(indexed):
    indexed.state.chmod(0o700)
    done = indexed("doctor")
    assert (done.code, done.err) == (0, "")
    rows = done.out.splitlines()
    assert re.fullmatch(r"memory-gateway [\d.]+\S*, agent main", rows[0])
    assert any(re.match(r"  ok +canary +A note was written, indexed, found", row) for row in rows)
    assert any(re.search(r"ok +index +The index is intact\.  ~/\.openclaw/", row) for row in rows)
    assert rows[-1].startswith("ok: ")


def test_what_weakens_memory_ends_with_one_and_names_place_and_fix(indexed):
    indexed.configure({"agents": {"defaults": {"memorySearch": {"chunkng": {}}}}})
    done = indexed("doctor")
    assert done.code == 1
    assert re.search(r"warning +configuration +agents\.defaults\.memorySearch\.chunkng", done.out)
    assert re.search(r"^ +at ~/\.openclaw/openclaw\.json:1$", done.out, re.MULTILINE)
    assert re.search(r"^ +Fix: Correct or remove the key", done.out, re.MULTILINE)
    assert done.out.splitlines()[-1].startswith("degraded: ")


def test_every_problem_of_a_configuration_that_cannot_be_used_is_a_finding(cli):
    cli.configure({"memory": {"append": {"enabled": 7}, "backend": "nonsense"}})
    shown = cli.json("doctor", code=2)
    assert (shown["agentId"], shown["status"]) == (None, "failing")
    assert [one["check"] for one in shown["findings"]] == ["configuration"] * 2
    assert all(one["place"] == f"{cli.config}:1" and one["fix"] for one in shown["findings"])


def test_json_has_the_documented_shape_for_every_check(indexed):
    shown = indexed.json("doctor", code=indexed("doctor").code)
    assert set(shown) == {"version", "agentId", "status", "findings"}
    checks = ["configuration", "provider", "places", "index", "libraries", "disk", "watches"]
    seen = [one["check"] for one in shown["findings"]]
    assert list(dict.fromkeys(seen)) == [*checks, "owner", "hooks", "canary"]
    for one in shown["findings"]:
        assert set(one) == {"check", "severity", "cause", "place", "fix"}
        assert one["severity"] in {"ok", "note", "warning", "error"}


def test_it_makes_nothing_where_nothing_was(cli):
    before = sorted(cli.home.rglob("*"))
    assert cli("doctor").code in {0, 1}
    assert sorted(cli.home.rglob("*")) == before


def test_a_memory_that_is_switched_off_is_noted(cli):
    cli.configure({"plugins": {"slots": {"memory": "none"}}})
    notes = [one for one in cli.json("doctor")["findings"] if one["severity"] == "note"]
    assert any("plugins.slots.memory" in one["cause"] for one in notes)
