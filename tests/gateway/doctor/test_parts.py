"""Providers and their keys, libraries, models and QMD: missing ones are named with their remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from backends.qmd.sidecar import home_of
from config.settings import LocalSettings, Secret, VectorStoreSettings
from fakes.host_database import HostDatabase
from fakes.settings import remote
from gateway.doctor.index import check_transcripts
from gateway.doctor.surroundings import check_libraries, check_model, check_provider, check_qmd

KEY = "sk-canary-90fe12"


pytestmark = pytest.mark.anyio


def test_a_missing_key_is_named_with_every_source_that_was_looked_at(settings, with_search, worst):
    one = worst(check_provider(with_search(settings, provider="openai")))
    assert one.severity == "warning"
    assert "environment variable OPENAI_API_KEY: not set" in one.cause
    assert "OPENAI_API_KEY" in one.fix


def test_where_a_key_comes_from_is_told_without_the_key(settings, with_search):
    asked = with_search(settings, provider="openai")
    (one,) = check_provider(replace(asked, environment_keys={"OPENAI_API_KEY": Secret(KEY)}))
    assert one.severity == "ok"
    assert "environment variable OPENAI_API_KEY" in one.cause
    assert KEY not in repr(one)


def test_a_fallback_that_could_not_stand_in_is_told(settings, with_search, worst):
    asked = with_search(settings, provider="openai", fallback="voyage", remote=remote(key=KEY))
    one = worst(check_provider(asked))
    assert (one.severity, one.place) == ("warning", "fallback")
    assert "voyage" in one.cause


def test_without_any_key_search_by_words_is_a_note_and_no_fault(settings, with_search, severities):
    found = list(check_provider(with_search(settings, provider="auto")))
    assert severities(found) == ["note"]


def test_broken_auth_profiles_are_told(settings):
    settings.agent_dir.mkdir(parents=True)
    path = settings.agent_dir / "auth-profiles.json"
    path.write_text("{", encoding="utf-8")
    (one,) = [one for one in check_provider(settings) if one.severity == "warning"]
    assert str(path) in one.cause


def test_an_extension_that_is_not_there_is_told_with_its_key(settings, with_search, worst):
    store = replace(
        settings.search.store, vector=VectorStoreSettings(extension_path=Path("/nowhere/vec0.so"))
    )
    one = worst(check_libraries(with_search(settings, store=store)))
    assert (one.severity, one.place) == ("warning", "store.vector.extensionPath")
    assert "/nowhere/vec0.so" in one.cause


def test_a_model_that_is_missing_or_none_at_all_is_told(
    settings, root, with_search, worst, severities
):
    path = root / "model.gguf"
    local = LocalSettings(model_path=str(path))
    asked = with_search(settings, provider="local", local=local)
    assert "does not exist" in worst(check_model(asked)).cause
    path.write_text("no model", encoding="utf-8")
    assert "no GGUF file" in worst(check_model(asked)).cause
    path.write_bytes(b"GGUF" + bytes(64))
    assert severities(check_model(asked)) == ["ok"]


def test_a_model_that_cannot_be_looked_at_is_reported_with_its_place(
    settings, root, with_search, worst
):
    path = root / ("m" * 300)  # no file can have such a name
    one = worst(
        check_model(
            with_search(settings, provider="local", local=LocalSettings(model_path=str(path)))
        )
    )
    assert (one.severity, one.place) == ("warning", str(path))
    assert "File name too long" in one.cause


def test_a_model_that_is_yet_to_be_fetched_is_a_note(settings, root, with_search, worst):
    local = LocalSettings(model_cache_dir=root / "models")
    one = worst(check_model(with_search(settings, provider="local", local=local)))
    assert (one.severity, "models pull" in one.fix) == ("note", True)


async def test_a_qmd_that_is_missing_is_told_with_how_to_get_it(settings, worst):
    qmd = replace(settings.qmd, command="/nowhere/qmd")
    one = worst(await check_qmd(replace(settings, backend="qmd", qmd=qmd)))
    assert (one.severity, "/nowhere/qmd" in one.cause, "npm" in one.fix) == ("warning", True, True)


async def test_a_program_that_is_no_qmd_is_told_and_leaves_no_home(settings, root, worst):
    program = root / "qmd"
    program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    asked = replace(settings, backend="qmd", qmd=replace(settings.qmd, command=str(program)))
    assert "does not tell its version" in worst(await check_qmd(asked)).cause
    assert not (root / "agents").exists()


def test_conversations_are_no_matter_while_they_are_no_source(settings):
    HostDatabase(settings.state_dir).close()
    assert list(check_transcripts(settings)) == []


def test_a_database_of_the_host_is_told_as_readable_untried_or_unreadable(
    settings, with_search, severities
):
    asked = with_search(settings, sources=("memory", "sessions"))
    host = HostDatabase(settings.state_dir)
    host.session().say("Hello.")
    (one,) = check_transcripts(asked)
    assert (one.severity, one.place) == ("ok", str(host.path))
    assert one.cause == "Conversations that can be read: 1."
    host.db.execute("PRAGMA user_version = 24")
    assert severities(check_transcripts(asked)) == ["ok", "note"]
    host.db.execute("DROP TABLE transcript_events")
    (one,) = check_transcripts(asked)
    assert (one.severity, one.place) == ("warning", str(host.path))
    assert "transcript_events.seq" in one.cause
    host.close()


async def test_the_models_of_qmd_are_those_that_its_configuration_names(
    settings, root, worst, severities
):
    program = root / "qmd"
    program.write_text("#!/bin/sh\necho qmd 2.8.3\n", encoding="utf-8")
    program.chmod(0o755)
    qmd = replace(settings.qmd, command=f"{program} --quiet", search_mode="vsearch")
    asked = replace(settings, backend="qmd", qmd=qmd)
    home = home_of(asked)
    home.config_dir.mkdir(parents=True)
    home.config_file.write_text('{"models": {"embed": "/nowhere/own.gguf"}}', encoding="utf-8")
    assert "/nowhere/own.gguf is not on this machine" in worst(await check_qmd(asked)).cause
    home.config_file.write_text(f'{{"models": {{"embed": "{program}"}}}}', encoding="utf-8")
    found = await check_qmd(asked)
    assert severities(found) == ["ok"]
    assert str(program) in repr(found)
