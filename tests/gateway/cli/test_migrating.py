"""`config --migrate`: its output, its changes, and what it keeps."""

from __future__ import annotations

import json

OLD = '{\n  // who searches\n  memory: {backend: "builtin", citations: "on"},\n}\n'


def test_it_prints_the_moved_file_and_writes_nothing(cli):
    cli.config.write_text(OLD, encoding="utf-8")
    done = cli("config", "--migrate")
    assert done.code == 0
    assert '"memory-gateway": {' in done.out
    assert "// who searches" in done.out
    moved = "plugins.entries.memory-gateway.config.backend"
    assert f"Line 3: memory.backend moves to {moved}." in done.err
    assert cli.config.read_text(encoding="utf-8") == OLD


def test_as_json_it_says_what_moves_where(cli):
    cli.config.write_text(OLD, encoding="utf-8")
    shown = cli.json("config", "--migrate")
    assert shown["moves"] == [
        {
            "line": 3,
            "from": "memory.backend",
            "to": "plugins.entries.memory-gateway.config.backend",
            "reason": None,
        }
    ]
    assert "memory-gateway" in shown["text"]


def test_with_write_it_replaces_the_file_and_keeps_the_old_one_with_its_mode(cli):
    cli.config.write_text(OLD, encoding="utf-8")
    cli.config.chmod(0o640)
    for number in ("", ".2"):
        done = cli("config", "--migrate", "--write")
        assert (done.code, done.out) == (0, "")
        kept = cli.config.with_name(f"openclaw.json.before-memory-gateway{number}")
        assert kept.read_text(encoding="utf-8") == OLD
        assert (kept.stat().st_mode & 0o777, cli.config.stat().st_mode & 0o777) == (0o640, 0o640)
        assert "memory-gateway" in cli.config.read_text(encoding="utf-8")
        again = cli("config", "--migrate", "--write")
        assert again.out.startswith("Nothing has to be moved")
        assert again.err == ""
        cli.config.write_text(OLD, encoding="utf-8")
    assert len(list(cli.state.glob("openclaw.json.before*"))) == 2


def test_a_byte_order_mark_and_the_ends_of_lines_stay(cli):
    lines = "\ufeff{\n  memorySearch: {\n    // mine\n    store: {path: '/i'}, // kept\n  },\n}\n"
    cli.config.write_bytes(lines.replace("\n", "\r\n").encode())
    assert cli("config", "--migrate", "--write").code == 0
    after = cli.config.read_bytes().decode()
    assert after.startswith("\ufeff{\r\n") and "memory-gateway" in after
    assert after.count("\n") == after.count("\r\n")


def test_a_file_that_is_a_link_stays_one(cli):
    target = cli.state / "real.json5"
    target.write_text(OLD, encoding="utf-8")
    cli.config.symlink_to(target)
    assert cli("config", "--migrate", "--write").code == 0
    assert cli.config.is_symlink()
    assert "memory-gateway" in target.read_text(encoding="utf-8")


def test_without_a_file_there_is_nothing_to_move(cli):
    done = cli("config", "--migrate")
    assert (done.code, done.out) == (78, "")
    assert f"there is no {cli.config}." in done.err


def test_write_alone_is_a_mistake(cli):
    assert cli("config", "--write").code == 64


def test_doctor_names_what_todays_host_refuses_and_how_loudly_depends_on_who_wrote_it(cli):
    for version, severity in (("2026.2.9", "note"), ("2026.9.6", "warning")):
        cli.configure(
            {
                "meta": {"lastTouchedVersion": version},
                "memorySearch": {"store": {"driver": "sqlite"}},
            }
        )
        findings = json.loads(cli("doctor", "--json").out)["findings"]
        (found,) = [one for one in findings if "refuses" in one["cause"]]
        assert found["severity"] == severity
        assert "plugins.entries.memory-gateway.config.search.store.driver" in found["cause"]
        assert "config --migrate" in found["fix"]
