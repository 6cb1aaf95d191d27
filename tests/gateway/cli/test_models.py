"""`models list`, `suggest`, `pull` and `remove`, against a loopback hub."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fakes.hub import FakeHub, model_bytes
from providers.local import models

REFERENCE = "hf:org/repo/m.gguf"
DATA = model_bytes(300_000)
NETWORK, BESIDE = b"\x08" + bytes(200_000), b"{}"


@pytest.fixture
def hub(cli, monkeypatch):
    cli.configure({"agents": {"defaults": {"memorySearch": {"local": {"modelPath": REFERENCE}}}}})
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with FakeHub({"org/repo/m.gguf": DATA, "org/repo/n.gguf": DATA}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        yield hub


@pytest.fixture
def cache(cli):
    return cli.home / ".cache/memory-gateway/models"


def test_pull_fetches_the_configured_model_and_prints_its_path(cli, hub, cache):
    done = cli("models", "pull")
    path = cache / "hf/org/repo/main/m.gguf"
    assert done == (0, f"{path}\n", f"Fetching {REFERENCE} ...\n")
    assert path.read_bytes() == DATA
    assert cli("models", "pull") == (0, f"{path}\n", "")
    assert cli.json("models", "pull") == {"path": str(path), "bytes": len(DATA)}
    assert hub.sent() == len(DATA)


def test_pull_fetches_a_named_model_into_the_configured_directory(cli, hub):
    place = cli.home / "elsewhere"
    local = {"modelPath": REFERENCE, "modelCacheDir": str(place)}
    cli.configure({"agents": {"defaults": {"memorySearch": {"local": local}}}})
    done = cli("models", "pull", "hf:org/repo/n.gguf")
    assert done.out == f"{place}/hf/org/repo/main/n.gguf\n"


def test_the_token_may_stand_in_the_state_directory(cli, hub, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub.token = "hf_0123456789"
    (cli.state / ".env").write_text("HF_TOKEN=hf_0123456789\n", encoding="utf-8")
    assert cli("models", "pull").code == 0
    assert "hf_0123456789" not in str(cli("config"))


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("hf:org/repo/none.gguf", 66, "There is no hf:org/repo/none.gguf at 127.0.0.1"),
        ("hf:org/repo", 69, "does not name"),
        ("/nowhere/m.gguf", 66, "/nowhere/m.gguf cannot be read"),
        (
            "nowhere.gguf",
            66,
            "Name a file that can be read, in local.modelPath or after `models pull`",
        ),
    ],
)
def test_what_cannot_be_pulled_is_explained(cli, hub, model, code, words):
    done = cli("models", "pull", model)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_list_shows_the_configured_model_first_and_the_state_of_each(cli, hub, cache):
    assert re.search(rf"\* +not there +{REFERENCE}", cli("models", "list").out)
    cli("models", "pull", "hf:org/repo/n.gguf")
    hub.misbehave("status", status=400)
    cli("models", "pull")
    lines = cli("models", "list").out.splitlines()
    assert lines[0].split() == ["STATE", "SIZE", "MODEL", "PATH"]
    assert re.match(rf"\* +not there +{REFERENCE}", lines[1])
    assert re.match(r" +ready +300\.0 kB +hf:org/repo/n\.gguf +~/\.cache", lines[2])


def test_list_as_json_tells_size_hash_and_place(cli, hub, cache):
    cli("models", "pull")
    found = cli.json("models", "list")
    assert found["cacheDir"] == str(cache)
    assert found["models"] == [
        {
            "reference": REFERENCE,
            "path": str(cache / "hf/org/repo/main/m.gguf"),
            "bytes": len(DATA),
            "totalBytes": len(DATA),
            "complete": True,
            "configured": True,
            "sha256": hashlib.sha256(DATA).hexdigest(),
        }
    ]


def test_list_tells_how_much_of_a_model_is_there(cli, hub, cache):
    path = cache / "hf/org/repo/main/m.gguf"
    cli("models", "pull")
    path.rename(path.with_name("m.gguf.part")).write_bytes(DATA[:120_000])
    assert re.search(rf"\* +40 % of it +300\.0 kB +{REFERENCE}", cli("models", "list").out)


def test_list_shows_a_file_of_the_users_own(cli, hub, tmp_path):
    own = tmp_path / "own.gguf"
    own.write_bytes(DATA)
    local = {"modelPath": str(own)}
    cli.configure({"agents": {"defaults": {"memorySearch": {"local": local}}}})
    (item,) = cli.json("models", "list")["models"]
    assert (item["path"], item["complete"], item["bytes"]) == (str(own), True, len(DATA))


@pytest.mark.parametrize("by_path", [False, True])
def test_remove_takes_a_model_away_with_all_that_belonged_to_it(cli, hub, cache, by_path):
    path = cli("models", "pull").out.strip()
    done = cli("models", "remove", path if by_path else REFERENCE)
    assert done == (0, "Removed 300.0 kB.\n", "")
    assert list(cache.iterdir()) == []


def test_remove_of_what_is_not_there_says_so(cli, hub):
    done = cli("models", "remove", REFERENCE)
    assert (done.code, done.out) == (66, "")
    assert "There is no downloaded model" in done.err
    assert cli.json("models", "remove", REFERENCE, code=66) == {"removed": False, "bytes": 0}


def test_remove_never_touches_a_file_of_the_users_own(cli, hub, tmp_path):
    own = tmp_path / "own.gguf"
    own.write_bytes(DATA)
    done = cli("models", "remove", str(own))
    assert done.code == 69
    assert "not a downloaded model" in done.err
    assert own.exists()


def test_remove_waits_for_nobody_who_downloads_it_just_now(cli, hub, cache):
    path = cache / "hf/org/repo/main/m.gguf"
    cli("models", "pull")
    with path.with_name("m.gguf.lock").open("wb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        done = cli("models", "remove", REFERENCE)
    assert done.code == 75
    assert "is being downloaded" in done.err
    assert path.exists()


@pytest.fixture
def suggesting(cli, monkeypatch):
    """A hub that has the suggested model: another file, whose hash is the expected one."""
    first = models.SUGGESTED
    small = msgspec.structs.replace(
        first,
        sha256=hashlib.sha256(NETWORK).hexdigest(),
        beside=dict.fromkeys(first.beside, hashlib.sha256(BESIDE).hexdigest()),
    )
    monkeypatch.setattr(models, "SUGGESTED", small)
    monkeypatch.setattr(models, "SUGGESTIONS", (small, *models.SUGGESTIONS[1:]))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    source = first.repository
    files = {source.file: NETWORK, **dict.fromkeys(first.beside, BESIDE)}
    with FakeHub({f"{source.repository}/{name}": data for name, data in files.items()}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        yield hub


def test_suggest_tells_size_licence_and_the_command_and_downloads_nothing_unasked(cli, suggesting):
    done = cli("models", "suggest")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"not there +123\.6 MB +Apache-2\.0 .*granite-embedding-97m", done.out)
    assert "`memory-gateway models suggest --yes` downloads it" in done.out
    assert "models pull 'hf:ggml-org/embeddinggemma" in done.out
    assert suggesting.sent() == 0


def test_the_suggested_model_is_used_without_any_setting_once_it_was_downloaded(cli, suggesting):
    done = cli("models", "suggest", "--yes")
    assert done.code == 0
    assert "Searches use it from the next start of the gateway on" in done.out
    assert "--yes" not in done.out
    assert re.search(r"\* +ready .*granite-embedding-97m", cli("models", "list").out)
    assert "Download" not in cli("models", "suggest").out
    assert suggesting.sent() == len(NETWORK) + 3 * len(BESIDE)


def test_who_agreed_is_shown_no_table_of_models(cli, suggesting):
    done = cli("models", "suggest", "--yes")
    assert "Fetching granite-embedding-97m-multilingual-r2 (123.6 MB, Apache-2.0) ..." in done.err
    assert "RETRIEVAL" not in done.out


def test_without_a_network_it_says_how_files_are_handed_over_and_takes_them(
    cli, suggesting, cache, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = cli("models", "suggest", "--yes")
    assert done.code == 69
    assert "Until then notes are found by their words." in done.err
    first = models.SUGGESTED
    names, place = re.search(r"put (.+) of https://\S+ below (\S+), then", done.err).groups()
    assert set(names.split(", ")) == {first.repository.file, *first.beside}
    for name in names.split(", "):
        path = Path(place.replace("~", str(cli.home), 1)) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NETWORK if name == first.repository.file else BESIDE)
    done = cli("models", "suggest", "--yes")
    assert done.code == 0 and "Searches use it" in done.out
    assert suggesting.requests == []


def test_a_host_that_cannot_be_reached_is_told_with_what_works_all_the_same(
    cli, suggesting, monkeypatch
):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = cli("models", "suggest", "--yes")
    assert done.code == 75
    assert "cannot be reached" in done.err and "By hand: put " in done.err
    assert "Until then notes are found by their words." in done.err


def test_a_full_disk_is_told_before_anything_is_fetched(cli, suggesting, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100_000))
    done = cli("models", "suggest", "--yes")
    assert done.code == 69
    assert "MB are free" in done.err and "local.modelCacheDir" in done.err
    assert not any(one.stat().st_size for one in cache.rglob("*") if one.is_file())


def test_with_another_provider_the_suggested_model_needs_a_setting(cli, suggesting, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    done = cli("models", "suggest", "--yes")
    assert "It is not used: openai is used." in done.out
    assert 'provider "local"' in done.out


def test_another_file_than_the_suggested_one_is_refused_and_never_used(
    cli, suggesting, monkeypatch
):
    other = msgspec.structs.replace(models.SUGGESTED, sha256="0" * 64)
    monkeypatch.setattr(models, "SUGGESTED", other)
    monkeypatch.setattr(models, "SUGGESTIONS", (other,))
    done = cli("models", "suggest", "--yes")
    assert done.code == 69
    assert "is not the one that is suggested" in done.err
    assert cli.json("models", "suggest")["choice"]["provider"] is None


def test_suggestions_as_json_tell_what_is_there_and_what_would_be_used(cli, suggesting):
    found = cli.json("models", "suggest")
    assert [one["here"] for one in found["suggestions"]] == [False, False]
    assert found["suggestions"][0]["licence"] == "Apache-2.0"
    assert found["choice"]["provider"] is None
    found = cli.json("models", "suggest", "--yes")
    assert found["suggestions"][0]["here"]
    assert found["choice"]["provider"] == "local"
