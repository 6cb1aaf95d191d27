"""Permissions, modes and keys in open files."""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import closing
from pathlib import Path

import anyio
import apsw
import pytest
from msgspec.structs import replace

from backends.interface import SyncRequest
from config.runtime.files import name_of_user
from config.settings import ExtraPath, Secret
from fakes.settings import remote
from gateway.agent.memory import open_memory
from gateway.doctor.configuration import check_places, check_secrets

KEY = "sk-canary-90fe12"


def test_a_workspace_that_may_not_be_entered_is_an_error(settings, root, unprivileged):
    (root / "workspace").chmod(0o700 if os.geteuid() == 0 else 0)
    with unprivileged():
        found = list(check_places(settings))
    (one,) = [one for one in found if one.place == str(root / "workspace")]
    assert (one.severity, "cannot be read" in one.cause, bool(one.fix)) == ("error", True, True)


def test_a_note_and_a_directory_that_cannot_be_read_are_named(
    settings, root, unprivileged, severities
):
    (root / "workspace/memory/a.md").chmod(0)
    closed = root / "workspace/memory/closed"
    closed.mkdir()
    closed.chmod(0)
    with unprivileged():
        found = [one for one in check_places(settings) if "not searched" in one.cause]
    assert {Path(one.place.split(" (")[0]).name for one in found} == {"a.md", "closed"}
    assert set(severities(found)) == {"warning"}


def test_a_state_directory_that_cannot_be_written_is_an_error(settings, root, unprivileged):
    root.chmod(0o555)
    with unprivileged():
        found = [one for one in check_places(settings) if one.severity == "error"]
    assert found
    assert all("cannot be written" in one.cause and one.fix for one in found)


def test_a_file_in_the_way_of_a_directory_is_an_error(settings, root):
    (root / "file").write_text("", encoding="utf-8")
    found = check_places(replace(settings, state_dir=root / "file/state"))
    (one,) = [one for one in found if one.severity == "error"]
    assert "is not a directory" in one.cause


def test_others_who_may_write_or_read_are_told(settings, root, index):
    root.chmod(0o777)
    index.chmod(0o644)
    fixes = {one.fix for one in check_places(settings) if one.severity == "warning"}
    assert fixes >= {f"chmod go-w {root}", f"chmod 600 {index}"}


def test_a_remedy_with_a_command_can_be_typed_as_it_stands_whatever_the_names(
    settings, root, unprivileged
):
    note, closed = root / "workspace/memory/plan (old) & so on.md", root / "workspace/memory/a (b)"
    note.write_text("# Plan\n", encoding="utf-8")
    closed.mkdir()
    keys = root / "my state"
    keys.mkdir(mode=0o755)
    (keys / ".env").write_text(f"OPENAI_API_KEY={KEY}\n", encoding="utf-8")
    (keys / ".env").chmod(0o644)
    for path in (root, note, closed):
        path.chmod(0o755 if path == root else 0)
    with unprivileged():
        user = name_of_user(os.geteuid())
        places = [one for one in check_places(settings) if "not searched" in one.cause]
    secret = next(iter(check_secrets(replace(settings, state_dir=keys))))
    assert shlex.split(secret.fix) == ["chmod", "600", str(keys / ".env")]
    for path in (note, closed):
        (one,) = [one for one in places if one.place.startswith(str(path))]
        named = shlex.quote(str(path))
        assert f"chmod u+rwX {named};" in one.fix or f"`sudo chown {user} {named}`" in one.fix


def test_places_of_notes_that_do_not_exist_are_noted(settings, root, with_search, severities):
    extra = ExtraPath(path=root / "nowhere", raw="nowhere")
    found = check_places(with_search(settings, extra_paths=(extra,)))
    (one,) = [one for one in found if one.severity == "note"]
    assert one.place == str(root / "nowhere")
    shutil.rmtree(root / "workspace")
    missing = [one for one in check_places(settings) if "does not exist" in one.cause]
    assert severities(missing) == ["warning"]
    ways = "correct {}, or name a folder of notes: memory-gateway setup."
    assert missing[0].fix == "Create it, or " + ways.format(
        "agents.defaults.workspace or --workspace"
    )
    notes = replace(settings, notes_folder=settings.workspace)
    missing = [one for one in check_places(notes) if "does not exist" in one.cause]
    assert missing[0].fix == "Create it, or " + ways.format("--notes")


def test_open_files_with_keys_are_told_without_the_key(settings, root, with_search, worst):
    (root / ".env").write_text(f"OPENAI_API_KEY={KEY}\n", encoding="utf-8")
    config = root / "openclaw.json"
    config.write_text("{}", encoding="utf-8")
    for path in (root / ".env", config):
        path.chmod(0o644)
    assert worst(check_secrets(settings)).fix == f"chmod 600 {root / '.env'}"
    found = list(
        check_secrets(replace(with_search(settings, remote=remote(key=KEY)), config_path=config))
    )
    assert {one.place for one in found} == {str(root / ".env"), str(config)}
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("address", "holds"),
    [
        ("postgresql://gateway@db.example/memory?sslmode=verify-full", False),
        ("postgresql://gateway:word@db.example/memory", True),
        ("postgresql://gateway@db.example/memory?password=word", True),
        ("host=db.example password=word", True),
    ],
)
def test_an_address_of_a_database_is_a_key_only_with_a_password(
    settings, with_search, tmp_path, address, holds
):
    config = tmp_path / "openclaw.json"
    config.write_text("{}", encoding="utf-8")
    config.chmod(0o644)
    store = replace(settings.search.store, url=Secret(address))
    given = replace(with_search(settings, store=store), config_path=config)
    assert bool(list(check_secrets(given))) is holds


def test_files_are_counted_where_they_are_and_what_is_left_out_is_named(
    settings, root, with_search
):
    (root / "workspace/memory/link.md").symlink_to("a.md")
    (root / "elsewhere").mkdir()
    (root / "elsewhere/b.md").write_text("b", encoding="utf-8")
    extra = ExtraPath(path=root / "elsewhere", raw="elsewhere")
    causes = [one.cause for one in check_places(with_search(settings, extra_paths=(extra,)))]
    assert any("1 file of memory is in it, 1 elsewhere (extraPaths)" in one for one in causes)
    assert any(one.startswith("Not indexed: memory/link.md: ") for one in causes)


def test_a_workspace_that_was_indexed_and_is_gone_is_not_to_be_created(
    settings, root, index, worst
):
    (root / "workspace").rename(root / "aside")
    one = worst(check_places(settings))
    assert one.severity == "warning"
    assert f"he workspace {root}/workspace is missing" in one.cause
    assert "Mount its disk" in one.fix


def test_an_empty_mount_point_and_an_extra_path_that_is_gone_are_told(
    root, settings, with_search, worst
):
    extra = root / "extra"
    extra.mkdir()
    (extra / "a.md").write_text("The ladder.\n", encoding="utf-8")
    settings = with_search(settings, extra_paths=(ExtraPath(raw="extra", path=extra),))

    async def fill():
        async with open_memory(settings, background=False) as memory:
            await memory.sync(SyncRequest())

    anyio.run(fill)
    with closing(apsw.Connection(str(settings.search.store.path))) as db:
        db.execute("UPDATE meta SET value = replace(value, ':', ':9') WHERE key = 'devices'")
    assert not [one for one in check_places(settings) if one.severity == "warning"]
    (extra / "a.md").unlink()
    one = worst(check_places(settings))
    assert (one.place, "is not the file system that was indexed" in one.cause) == (str(extra), True)
