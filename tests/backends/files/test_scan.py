import os
import unicodedata

import pytest

from backends.files.roots import MAX_DEPTH, MemoryRoots
from backends.files.safe_open import BEHIND_LINK, IS_LINK, NOT_REGULAR
from backends.files.scan import (
    MAX_PATH_BYTES,
    MAX_SKIPPED_PER_ROOT,
    NOT_MARKDOWN,
    UNDECODABLE,
    FoundFile,
    scan,
)


@pytest.fixture
def found(roots_of):
    """The index paths that a scan of a workspace and extra paths finds, in order."""
    return lambda workspace, *extras: [
        file.path for file in scan(roots_of(workspace, *extras)).files
    ]


@pytest.fixture
def skipped(roots_of):
    return lambda workspace, *extras: {
        entry.path: entry.reason for entry in scan(roots_of(workspace, *extras)).skipped
    }


def test_memory_files_come_first_and_the_rest_by_name(workspace, write, found):
    for name in (
        "memory/b.md",
        "memory/a/z.md",
        "memory/a.md",
        "memory.md",
        "USER.md",
        "MEMORY.md",
    ):
        write(workspace / name)
    expected = ["MEMORY.md", "memory.md", "USER.md", "memory/a.md", "memory/b.md", "memory/a/z.md"]
    assert found(workspace) == expected


def test_a_found_file_carries_the_stamps_of_its_file(workspace, write, roots_of):
    path = write(workspace / "memory/a.md", "12345")
    status = path.stat()
    assert scan(roots_of(workspace)).files == (
        FoundFile(
            path="memory/a.md",
            root=3,
            size=5,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            inode=status.st_ino,
            source="memory",
        ),
    )


def test_only_markdown_with_a_lower_case_suffix_is_memory(workspace, write, found):
    for name in ("a.md", "b.MD", "c.txt", "d.md.bak", "e", ".md", "f.markdown"):
        write(workspace / "memory" / name)
    assert found(workspace) == ["memory/.md", "memory/a.md"]


def test_nothing_beside_the_memory_of_a_workspace_is_taken(workspace, write, found):
    for name in ("notes.md", "Memory.md", "memories/a.md", "sub/MEMORY.md"):
        write(workspace / name)
    assert found(workspace) == []


def test_hidden_and_vendor_directories_are_walked_like_any_other(workspace, write, found):
    for name in (".git/a.md", ".hidden.md", "node_modules/p/README.md"):
        write(workspace / "memory" / name)
    assert set(found(workspace)) == {
        "memory/.git/a.md",
        "memory/.hidden.md",
        "memory/node_modules/p/README.md",
    }


def test_an_empty_workspace_is_not_missing_and_a_missing_one_is(workspace, roots_of):
    assert scan(roots_of(workspace)).missing == ()
    gone = workspace / "gone"
    result = scan(roots_of(gone))
    assert (result.files, result.missing, result.failed_dirs) == ((), (gone,), ())


def test_of_no_root_nothing_is_found(workspace):
    assert scan(MemoryRoots(workspace, own=False)).files == ()


def test_a_workspace_that_is_a_file_counts_as_missing(workspace, write, roots_of):
    plain = write(workspace / "plain")
    assert scan(roots_of(plain)).missing == (plain,)


def test_the_workspace_may_be_reached_over_a_link(tmp_path, workspace, write, found):
    write(workspace / "memory/a.md")
    (tmp_path / "link").symlink_to(workspace)
    assert found(tmp_path / "link") == ["memory/a.md"]


def test_extra_files_and_directories_are_named_relative_to_the_workspace(
    tmp_path, workspace, write, found
):
    write(tmp_path / "vault/deep/a.md")
    write(tmp_path / "todo.md")
    write(workspace / "notes/b.md")
    extras = (tmp_path / "vault", tmp_path / "todo.md", workspace / "notes")
    assert found(workspace, *extras) == ["../vault/deep/a.md", "../todo.md", "notes/b.md"]


def test_a_pattern_narrows_an_extra_directory(tmp_path, workspace, write, found):
    for name in ("daily/a.md", "daily/deep/b.md", "private/c.md", "top.md"):
        write(tmp_path / "vault" / name)
    assert found(workspace, (tmp_path / "vault", "daily/*.md")) == ["../vault/daily/a.md"]
    assert found(workspace, (tmp_path / "vault", "**/{a,top}.md")) == [
        "../vault/top.md",
        "../vault/daily/a.md",
    ]


def test_an_extra_file_that_is_not_markdown_is_skipped_with_a_reason(
    tmp_path, workspace, write, skipped
):
    write(tmp_path / "todo.txt")
    assert skipped(workspace, tmp_path / "todo.txt") == {"../todo.txt": NOT_MARKDOWN}


def test_missing_extra_paths_are_named_once(tmp_path, workspace, roots_of):
    gone = tmp_path / "gone" / "deep"
    assert scan(roots_of(workspace, gone, gone)).missing == (gone,)


def test_overlapping_extra_paths_give_one_row_a_file(tmp_path, workspace, write, roots_of):
    write(workspace / "memory/a.md")
    write(workspace / "MEMORY.md")
    write(tmp_path / "other/b.md")
    roots = roots_of(workspace, workspace / "memory", workspace, tmp_path, tmp_path / "other")
    result = scan(roots)
    assert [file.path for file in result.files] == ["MEMORY.md", "memory/a.md", "../other/b.md"]
    assert result.skipped == ()


def test_what_a_parent_of_the_workspace_holds_keeps_its_plain_names(
    tmp_path, workspace, write, found
):
    write(workspace / "notes/a.md")
    write(workspace / "top.md")
    assert set(found(workspace, tmp_path)) == {"notes/a.md", "top.md"}


def test_two_hard_links_are_one_memory_and_the_second_name_is_explained(
    workspace, write, found, skipped
):
    first = write(workspace / "memory/a.md")
    (workspace / "memory/b.md").hardlink_to(first)
    assert found(workspace) == ["memory/a.md"]
    assert skipped(workspace) == {"memory/b.md": "the same file as memory/a.md"}


def test_one_file_under_two_cases_of_its_name_is_one_row_without_a_word(workspace, write, roots_of):
    """This happens on a case-insensitive disk: both names lead to one inode."""
    first = write(workspace / "MEMORY.md")
    (workspace / "memory.md").hardlink_to(first)
    result = scan(roots_of(workspace))
    assert [file.path for file in result.files] == ["MEMORY.md"]
    assert result.skipped == ()


def test_links_are_not_followed_and_named(tmp_path, workspace, write, roots_of):
    write(tmp_path / "outside/secret.md")
    write(workspace / "memory/a.md")
    (workspace / "memory/file.md").symlink_to(workspace / "memory/a.md")
    (workspace / "memory/directory").symlink_to(tmp_path / "outside")
    (workspace / "memory/loop").symlink_to(workspace / "memory")
    (workspace / "memory/dangling.md").symlink_to(workspace / "none.md")
    (workspace / "MEMORY.md").symlink_to(workspace / "memory/a.md")
    result = scan(roots_of(workspace))
    assert [file.path for file in result.files] == ["memory/a.md"]
    assert {entry.path: entry.reason for entry in result.skipped} == {
        "MEMORY.md": IS_LINK,
        "memory/file.md": IS_LINK,
        "memory/directory": IS_LINK,
        "memory/loop": IS_LINK,
        "memory/dangling.md": IS_LINK,
    }
    assert result.skipped_count == 5


def test_a_root_that_is_a_link_is_ignored_and_named(tmp_path, workspace, write, roots_of):
    write(tmp_path / "outside/secret.md")
    for link in (workspace / "memory", tmp_path / "vault", workspace / "notes"):
        link.symlink_to(tmp_path / "outside")
    result = scan(roots_of(workspace, tmp_path / "vault", workspace / "notes" / "deep"))
    assert result.files == ()
    assert {entry.path: entry.reason for entry in result.skipped} == {
        "memory": IS_LINK,
        "../vault": IS_LINK,
        "notes/deep": BEHIND_LINK,
    }


def test_special_files_are_skipped_with_a_reason(workspace, skipped):
    (workspace / "MEMORY.md").mkdir()
    (workspace / "memory").mkdir()
    os.mkfifo(workspace / "memory/fifo.md")
    os.mkfifo(workspace / "memory/fifo")
    assert skipped(workspace) == {"MEMORY.md": NOT_REGULAR, "memory/fifo.md": NOT_REGULAR}


def test_skipped_entries_are_counted_without_end_and_named_up_to_a_bound(
    tmp_path, workspace, roots_of
):
    for root in (workspace / "memory", tmp_path / "vault"):
        root.mkdir()
        for number in range(MAX_SKIPPED_PER_ROOT + 10):
            (root / f"{number}.md").symlink_to("/nowhere")
    result = scan(roots_of(workspace, tmp_path / "vault"))
    assert result.skipped_count == 2 * MAX_SKIPPED_PER_ROOT + 20
    assert sum(result.skipped_reasons.values()) == result.skipped_count
    assert len(result.skipped) == 2 * MAX_SKIPPED_PER_ROOT
    assert result.skipped[-1].path.startswith("../vault/")


def test_twins_of_one_name_in_two_unicode_forms_are_two_files(workspace, write, found):
    names = {f"memory/{unicodedata.normalize(form, 'café')}.md" for form in ("NFC", "NFD")}
    for name in names:
        write(workspace / name)
    if len(list((workspace / "memory").iterdir())) == 1:
        pytest.skip("this file system keeps one Unicode form only")
    assert set(found(workspace)) == names


def test_control_characters_in_names_are_part_of_them(workspace, write, found):
    write(workspace / "memory/line\nbreak/tab\tand\x1bescape.md")
    assert found(workspace) == ["memory/line\nbreak/tab\tand\x1bescape.md"]


def test_names_that_are_not_text_are_skipped_and_shown_escaped(workspace, write, roots_of):
    broken = os.fsdecode(b"caf\xe9")
    write(workspace / "memory" / f"{broken}.md")
    write(workspace / "memory" / broken / "a.md")
    write(workspace / "memory/b.md")
    result = scan(roots_of(workspace))
    assert [file.path for file in result.files] == ["memory/b.md"]
    assert {entry.path: entry.reason for entry in result.skipped} == {
        "memory/caf\\xe9.md": UNDECODABLE,
        "memory/caf\\xe9": UNDECODABLE,
    }


def test_an_extra_file_whose_name_is_not_text_is_skipped(tmp_path, workspace, skipped):
    name = os.fsdecode(b"caf\xe9.md")
    (tmp_path / name).touch()
    assert skipped(workspace, tmp_path / name) == {"../caf\\xe9.md": UNDECODABLE}


def test_directories_are_walked_to_a_depth_and_no_deeper(workspace, write, roots_of):
    deepest = workspace / "memory" / "/".join(["d"] * MAX_DEPTH)
    write(deepest / "a.md")
    write(deepest / "d" / "b.md")
    result = scan(roots_of(workspace))
    assert [file.path[-6:] for file in result.files] == ["d/a.md"]
    assert [entry.reason for entry in result.skipped] == [f"more than {MAX_DEPTH} directories deep"]


def test_so_many_files_are_memory_and_the_rest_is_counted_and_said(
    tmp_path, workspace, write, roots_of
):
    for number in range(5):
        write(workspace / f"memory/{number}.md")
    for number in range(3):
        write(tmp_path / f"vault/{number}.md")
    roots = roots_of(workspace, tmp_path / "vault")
    whole = scan(roots, max_files=8)
    assert (len(whole.files), whole.skipped_count, whole.issues) == (8, 0, ())
    result = scan(roots, max_files=6)
    assert [file.path for file in result.files] == [
        *(f"memory/{number}.md" for number in range(5)),
        "../vault/0.md",
    ]
    assert {entry.path: entry.reason for entry in result.skipped} == {
        "../vault/1.md": "more than 6 files",
        "../vault/2.md": "more than 6 files",
    }
    (issue,) = result.issues
    assert issue.startswith("Only the first 6 Markdown files are indexed; 2 more are left out.")


def test_a_path_longer_than_a_store_can_hold_is_skipped(workspace, write, roots_of):
    """The limit is in bytes, of the path in the index."""
    longest = "memory/" + "/".join(["ä" * 100] * 20)
    longest = longest.encode()[: MAX_PATH_BYTES - 4].decode(errors="ignore").rstrip("/")
    longest += "a" * (MAX_PATH_BYTES - 3 - len(longest.encode())) + ".md"
    write(workspace / longest)
    write(workspace / f"{longest[:-3]}b.md")
    result = scan(roots_of(workspace))
    assert [file.path for file in result.files] == [longest]
    assert [entry.reason for entry in result.skipped] == ["its path has more than 2,048 bytes"]
