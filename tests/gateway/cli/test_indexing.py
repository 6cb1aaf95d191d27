"""`index`: one line about the work done, and one about what was left out."""

from __future__ import annotations

import re


def test_index_sums_up_in_one_line_and_a_second_run_finds_nothing_to_do(cli):
    first = cli("index")
    assert (first.code, first.err) == (0, "")
    assert re.fullmatch(r"4 files in .*: 4 new, .* chunks written, .* read \(.*/s\)\.\n", first.out)
    assert "0 new, 0 changed, 0 removed, 4 unchanged" in cli("index").out


def test_index_with_force_reads_everything_again(indexed):
    report = indexed.json("index", "--force")
    assert (report["changed"], report["unchanged"]) == (0, 4)
    assert report["bytesRead"] > 0


def test_index_tells_what_it_skipped_and_why(cli):
    (cli.workspace / "memory/link.md").symlink_to("/etc/hostname")
    done = cli("index")
    assert done.code == 0
    assert "1 skipped" in done.out
    assert re.match(r"Skipped memory/link\.md: .*link", done.err)


def test_index_as_json_is_the_report_of_the_wire(cli):
    report = cli.json("index")
    assert (report["added"], report["scanned"], report["reason"]) == (4, 4, "cli")
    assert {"durationMs", "bytesRead", "chunksWritten", "skipped"} <= set(report)
