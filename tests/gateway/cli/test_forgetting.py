"""`forget`: the remains of a deleted note are shown, removed, and looked for afterwards."""

import pytest

SECRET = "the cellar door opens with Xyl0phone-7731"


@pytest.fixture
def folder(cli):
    place = cli.home / "notes"
    for name, text in (("safe.md", SECRET), ("boiler.md", "the boiler is serviced in October")):
        place.mkdir(exist_ok=True)
        (place / name).write_text(f"# Note\n\n- {text}\n", encoding="utf-8")
    assert cli("index", "--notes", str(place)).code == 0
    return place


def files_with(cli, text):
    return [
        one
        for one in (cli.home / ".local").rglob("*")
        if one.is_file() and text.encode() in one.read_bytes()
    ]


def test_what_is_kept_of_a_deleted_note_is_removed_with_proof(cli, folder):
    (folder / "safe.md").unlink()
    shown = cli.json("forget", "--notes", str(folder), "safe.md")
    assert [(one["path"], one["isThere"]) for one in shown["kept"]] == [("safe.md", False)]
    assert shown["removed"] == 0 and files_with(cli, SECRET)
    report = cli.json("forget", "--notes", str(folder), "safe.md", "--yes")
    assert (report["removed"], report["found"]) == (1, [])
    assert report["searchedFor"] >= 1 and len(report["files"]) >= 1
    assert files_with(cli, "Xyl0phone") == []


def test_a_note_that_is_still_there_stays_indexed_and_is_told_so(cli, folder):
    done = cli("forget", "--notes", str(folder), "safe.md", "--yes")
    assert done.code == 0
    assert "safe.md" in done.out and "still there" in done.out and "Removed: 0" in done.out
    assert (folder / "safe.md").exists()
    assert cli.json("search", "--notes", str(folder), "cellar door")["results"]


def test_of_what_is_not_known_nothing_is_kept(cli, folder):
    done = cli("forget", "--notes", str(folder), "nothing.md", "--json")
    assert done.code == 66


@pytest.mark.parametrize(
    "arguments", [(), ("a.md", "--older-than", "90d"), ("--older-than", "soon")]
)
def test_a_path_or_an_age_is_wanted(cli, folder, arguments):
    done = cli("forget", "--notes", str(folder), *arguments)
    assert done.code == 64


def test_old_notes_that_are_gone_are_removed_together(cli, folder):
    for day in ("2020-01-05", "2020-01-06"):
        (folder / f"{day}.md").write_text(f"# {day}\n\n- old {day} Xyl0phone\n", encoding="utf-8")
    cli("index", "--notes", str(folder))
    (folder / "2020-01-05.md").unlink()
    report = cli.json("forget", "--notes", str(folder), "--older-than", "90d", "--yes")
    assert {one["path"]: one["isThere"] for one in report["kept"]} == {
        "2020-01-05.md": False,
        "2020-01-06.md": True,
    }
    assert report["removed"] == 1
    assert files_with(cli, "old 2020-01-05") == []
