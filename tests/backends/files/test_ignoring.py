import errno
import os
import time

import pytest

from backends.files import ignoring as ignoring_module
from backends.files.ignoring import IgnoreFiles
from backends.files.reading import read_lines
from backends.files.roots import MemoryRoots
from backends.files.scan import LeftOut, scan
from backends.interface import PathNotAllowedError, ReadRequest
from config.settings import ExtraPath


@pytest.fixture
def folder(workspace, tmp_path, write):
    place = tmp_path / "extra"
    for name in ("a.md", "drafts/b.md", "drafts/keep.md", "deep/drafts/c.md", ".hidden/d.md"):
        write(place / name)
    return place


@pytest.fixture
def roots(workspace, folder):
    def make(*exclude):
        return MemoryRoots(workspace, (ExtraPath(path=folder, exclude=exclude, raw="extra"),))

    return make


@pytest.fixture
def found(roots, folder):
    def names(*exclude):
        made = roots(*exclude)
        paths = (made.absolute(one.path) for one in scan(made).files)
        return {os.path.relpath(path, folder) for path in paths}

    return names


def test_hidden_and_vendor_entries_below_an_extra_path_are_left_out(found, folder, write):
    for name in ("node_modules/x.md", "deep/.venv/y.md", ".z.md"):
        write(folder / name)
    assert found() == {"a.md", "drafts/b.md", "drafts/keep.md", "deep/drafts/c.md"}


def test_an_extra_path_that_is_hidden_itself_is_listed(workspace, tmp_path, write):
    write(tmp_path / ".notes/a.md")
    roots = MemoryRoots(workspace, (ExtraPath(path=tmp_path / ".notes", raw=""),))
    assert len(scan(roots).files) == 1


def test_an_excluded_name_is_left_out_at_any_depth_and_an_anchored_one_at_the_top(found):
    assert found("drafts/") == {"a.md"}
    assert found("/drafts/") == {"a.md", "deep/drafts/c.md"}


@pytest.mark.parametrize("name", [".gitignore", ".memoryignore"])
def test_an_ignore_file_holds_below_its_directory_and_a_deeper_one_goes_before(
    found, folder, write, name
):
    write(folder / name, "b.md\nkeep.md\n# c.md\n")
    write(folder / "drafts" / name, "!keep.md\n")
    assert found() == {"a.md", "drafts/keep.md", "deep/drafts/c.md"}


def test_the_ignore_file_of_memory_has_the_last_word(found, folder, write):
    write(folder / ".gitignore", "drafts/\n")
    write(folder / ".memoryignore", "!drafts/\n!.hidden/\n")
    assert found() >= {"drafts/b.md", ".hidden/d.md"}


def test_a_change_of_an_ignore_file_counts_at_the_next_scan(roots, folder, write):
    made, ignoring = roots(), IgnoreFiles()
    write(folder / ".memoryignore", "drafts/\n")
    assert len(scan(made, ignoring=ignoring).files) == 1
    write(folder / ".memoryignore", "/drafts/\n")
    assert len(scan(made, ignoring=ignoring).files) == 2
    (folder / ".memoryignore").unlink()
    assert len(scan(made, ignoring=ignoring).files) == 4


def test_verdicts_and_patterns_take_so_many_bytes_and_what_was_forgotten_is_judged_again(
    roots, folder, write, monkeypatch
):
    monkeypatch.setattr(ignoring_module, "VERDICTS_BYTES", 2_000)
    monkeypatch.setattr(ignoring_module, "PATTERNS_BYTES", 20_000)
    write(folder / ".memoryignore", "*-2.md\n")
    for directory in range(20):
        for number in range(4):
            write(folder / f"{directory}/{number}-{number}.md")
        write(folder / f"{directory}/.gitignore", "3-3.md\n")
    made, ignoring = roots(), IgnoreFiles()
    found = [one.path for one in scan(made, ignoring=ignoring).files]
    assert sum(path.endswith(("0-0.md", "1-1.md")) for path in found) == 40
    assert not any(path.endswith(("2-2.md", "3-3.md")) for path in found)
    assert [one.path for one in scan(made, ignoring=ignoring).files] == found
    assert 0 < ignoring.bytes_used <= 22_000


def test_an_ignore_file_that_is_a_link_is_not_heeded(found, folder, write, tmp_path):
    (folder / ".memoryignore").symlink_to(write(tmp_path / "patterns", "*.md\n"))
    assert "a.md" in found()


def test_what_an_ignore_file_leaves_out_stays_out_while_it_cannot_be_read(
    roots, folder, write, monkeypatch
):
    write(folder / "deep/.memoryignore", "drafts/\n")
    opening = os.open

    def exhausted(path, *args, **options):
        if path == ".memoryignore":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opening(path, *args, **options)

    made, ignoring = roots(), IgnoreFiles()
    monkeypatch.setattr(os, "open", exhausted)
    result = scan(made, ignoring=ignoring)
    monkeypatch.undo()
    assert not any(one.path.endswith("deep/drafts/c.md") for one in result.files)
    assert [one.may_pass for one in result.failed_dirs] == [True]
    assert result.keeps(made.index_path(str(folder / "deep/drafts/c.md")))
    later = scan(made, ignoring=ignoring)
    assert len(later.files) == 3
    assert not later.failed_dirs
    assert not any(one.path.endswith("deep/drafts/c.md") for one in later.files)


def test_lines_that_are_no_patterns_cost_the_others_nothing(found, folder, write):
    write(folder / ".memoryignore", "!\n/\n\\\n[\ndrafts/\n")
    assert found() == {"a.md"}


def test_a_hostile_pattern_takes_no_time(found, folder, write):
    write(folder / ("a/" * 60) / ("a" * 200 + ".md"))
    write(folder / ".memoryignore", "**/*a" * 9 + "/b\n" + "*a" * 30 + "b\n")
    started = time.process_time()
    found()
    assert time.process_time() - started < 1


def test_what_each_rule_leaves_out_is_counted_on_demand(roots, folder, write):
    write(folder / ".gitignore", "keep.md\n")
    write(folder / "node_modules/p/README.md")
    write(folder / "node_modules/p/index.js")
    counted = scan(roots("/deep/"), counting=True).ignored
    assert counted == (
        LeftOut(".gitignore", 1),
        LeftOut("exclude", 1),
        LeftOut("hidden", 1),
        LeftOut("node_modules", 1),
    )
    assert scan(roots("/deep/")).ignored == ()


@pytest.mark.parametrize("name", ["drafts/b.md", ".hidden/d.md", "deep/drafts/c.md"])
def test_what_is_left_out_cannot_be_read(roots, folder, write, name):
    write(folder / ".gitignore", "b.md\n")
    with pytest.raises(PathNotAllowedError):
        read_lines(roots("/deep/"), ReadRequest(path=str(folder / name)))


def test_what_is_kept_by_a_negated_pattern_can_be_read(roots, folder, write):
    write(folder / ".gitignore", "*.md\n!b.md\n")
    assert read_lines(roots(), ReadRequest(path=str(folder / "drafts/b.md"))).status == "ok"


def test_a_missing_file_below_an_extra_path_is_not_found(roots, folder):
    assert read_lines(roots(), ReadRequest(path=str(folder / "no/such.md"))).status == "not_found"
