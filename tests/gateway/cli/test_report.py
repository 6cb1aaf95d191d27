"""The output of `status`, `health` and `config` for people."""

from __future__ import annotations

import msgspec

from backends.interface import SkippedFile, SourceCount, SyncProgress, SyncReport
from config.describe import Row
from config.settings import SettingOrigin
from fakes.details import details
from fakes.each import each
from gateway.cli.rendering.status_lines import (
    config_lines,
    health_lines,
    status_lines,
    sync_remarks,
    sync_summary,
)
from gateway.tools.status import Health, StatusResult

REPORT = SyncReport(
    reason="boot", scanned=3, added=2, changed=1, removed=0, unchanged=0,
    skipped=(SkippedFile(path="memory/l.md", reason="a link"),), chunks_written=1,
    bytes_read=2_000_000, duration_ms=500, complete=True, error=None,
)  # fmt: skip


def count(source, **more):
    numbers = {"on_disk": 45, "indexed": 42, "pending": 3, "skipped": 0, "chunks": 300}
    return SourceCount(source=source, **(numbers | more))


def status(**more):
    fields = {
        "agent_id": "main",
        "version": "1",
        "pid": 1,
        "enabled": True,
        "workspace": "/srv/ws",
        "config_path": None,
        "backend": "builtin",
        "requested_provider": "auto",
        "chunks": 300,
        "sources": (count("memory"),),
        "database_path": "/srv/main.sqlite",
        "database_bytes": 1_234_000,
    }
    return StatusResult(**(fields | more))


def shown(result):
    lines = [line.plain for line in status_lines(result)]
    return dict(line.strip().split("  ", 1) for line in lines[1:]) | {"": lines[0]}


def row(result, name):
    return shown(result)[name].strip()


def test_status_names_the_agent_and_counts_what_is_indexed():
    assert row(status(), "") == "Memory of agent main"
    assert row(status(), "Indexed") == "42/45 files · 300 chunks"
    assert row(status(requested_provider="openai"), "Provider") == "none (requested: openai)"
    assert row(status(), "Store") == "/srv/main.sqlite (1.2 MB)"
    assert row(status(), "Configuration") == "all defaults"


def test_status_has_no_row_that_says_nothing():
    assert shown(status()).keys() == {
        "", "Backend", "Indexed", "Up to date", "Store", "Workspace", "Configuration",
    }  # fmt: skip
    used = shown(status(provider="openai", model="small"))
    assert used["Provider"].strip() == "openai (requested: auto)"
    assert used["Model"].strip() == "small"


def test_status_of_notes_shows_no_switch_of_a_host():
    off = details(sessions={"enabled": False})
    assert row(status(details=off), "Transcripts") == "off: experimental.sessionMemory is false"
    assert "Transcripts" not in shown(status(details=off, notes=True))
    assert row(status(details=details("sessions"), notes=True), "Transcripts").startswith("on")


def test_status_before_anything_is_indexed_says_what_does_it():
    cold = status(dirty=True, sources=(count("memory", indexed=0),))
    assert row(cold, "Up to date") == "no: nothing is indexed yet; the first search does it"


def test_status_shortens_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ines")
    found = status(workspace="/home/ines/ws", config_path="/home/ines/openclaw.json")
    assert row(found, "Workspace") == "~/ws"
    assert row(found, "Configuration") == "~/openclaw.json"


def test_status_lists_the_sources_when_there_are_several():
    found = status(sources=(count("memory"), count("sessions", pending=0)))
    assert row(found, "· memory") == "42/45 files · 300 chunks, 3 pending"
    assert row(found, "· sessions") == "42/45 files · 300 chunks"


def test_status_tells_everything_that_is_wrong():
    found = status(
        dirty=True,
        syncing=SyncProgress(done=1, total=3),
        recent_syncs=(REPORT,),
        last_sync_error="disk full",
        config_error="line 3: no brace",
        skipped=(SkippedFile(path="memory/l.md", reason="a link"),),
        issues=("/extra does not exist (yet).",),
        warnings=("memory.foo: unknown",),
    )
    assert row(found, "Up to date") == "no: files have changed since the last sync"
    assert row(found, "Syncing") == "1 of 3 files"
    assert row(found, "Last sync").startswith("boot: 3 files in 0.50 s")
    assert row(found, "Sync error") == "disk full"
    assert row(found, "Configuration error") == "line 3: no brace"
    assert row(found, "Skipped") == "memory/l.md: a link"
    assert row(found, "Issue") == "/extra does not exist (yet)."
    assert row(found, "Warning") == "memory.foo: unknown"


def test_status_of_a_memory_that_is_off_says_why():
    found = StatusResult(
        agent_id="main", version="1", pid=1, enabled=False, workspace="/ws", config_path=None,
        disabled="switched off",
    )  # fmt: skip
    assert row(found, "Memory") == "off: switched off"
    assert "Indexed" not in shown(found)


def test_a_sync_is_summed_up_in_one_line_with_its_rate():
    assert sync_summary(REPORT) == (
        "3 files in 0.50 s: 2 new, 1 changed, 0 removed, 0 unchanged, 1 skipped; "
        "1 chunk written, 2.0 MB read (4.0 MB/s)."
    )


def test_a_sync_tells_what_it_left_undone():
    unfinished = msgspec.structs.replace(REPORT, complete=False)
    failed = msgspec.structs.replace(REPORT, complete=False, error="The disk is full.")
    skipped = "Skipped memory/l.md: a link"
    assert list(sync_remarks(REPORT)) == [skipped]
    assert list(sync_remarks(unfinished)) == [
        skipped,
        "Some files were being written; run it again to index them.",
    ]
    assert list(sync_remarks(failed))[1] == "Not everything was indexed: The disk is full."


@each("word", ["ok", "degraded", "failing"])
def test_health_is_one_word_and_its_reasons(word):
    lines = [line.plain for line in health_lines(Health(word, ("because",)))]
    assert lines == [word, "  because"]


def test_configuration_is_a_table_of_key_value_and_origin():
    row = Row("citations", "on", SettingOrigin(kind="file", detail="citations, line 3"))
    lines = [line.plain for line in config_lines([row])]
    assert [line.split() for line in lines] == [
        ["KEY", "VALUE", "ORIGIN"],
        ["citations", "on", "file:", "citations,", "line", "3"],
    ]
