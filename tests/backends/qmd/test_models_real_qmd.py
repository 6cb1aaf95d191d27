"""The real program with models: embedding, vector search and reranking, for real, on tiny models."""

from __future__ import annotations

import fcntl
import json
import os
import time

import pytest

from backends.interface import SearchRequest
from backends.qmd.backend import open_qmd
from backends.qmd.process import QmdUnavailableError, embed_lock
from backends.qmd.sidecar import home_of
from fakes.gguf import write_embedder, write_reranker
from fakes.qmd import answered, clean_environment, qmd_settings, until, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def with_models(tmp_path, notes):
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    return clean_environment(
        tmp_path,
        XDG_RUNTIME_DIR=str(runtime),
        QMD_EMBED_MODEL=str(write_embedder(tmp_path / "embed.gguf")),
        QMD_RERANK_MODEL=str(write_reranker(tmp_path / "rerank.gguf")),
        QMD_GENERATE_MODEL=str(tmp_path / "there-is-none.gguf"),
        QMD_FORCE_CPU="1",
    )


async def in_mode(backend, mode: str):
    async def ask():
        try:
            answer = await backend.search(SearchRequest(query="who services the boiler?"))
        except QmdUnavailableError:  # models are being loaded
            return None
        assert answer.hits
        return answer if answer.mode == mode else None

    await answered(backend, "boiler")
    return await until(ask, f"an answer in mode {mode}")


@pytest.mark.parametrize(
    ("search_mode", "told"),
    [("query", "rerank"), ("vsearch", "vector")],
)
async def test_models_are_used_as_soon_as_the_embeddings_are_there(
    search_mode, told, tmp_path, with_models, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command, search_mode=search_mode)
    async with open_qmd(settings, with_models) as backend:
        first = await answered(backend, "boiler")
        assert first.mode in {"keyword", told}
        answer = await in_mode(backend, told)
        assert (answer.backend, answer.warning) == ("qmd", None)
        assert answer.model.endswith("embed.gguf")
        assert {hit.path for hit in answer.hits} == {"MEMORY.md", "memory/2026-02-01.md"}
        scores = [hit.score for hit in answer.hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score <= 1 for score in scores)
        assert (await backend.status()).sources[0].chunks == 2
        assert await backend.engine.upkeep.vectors() == 2


async def test_models_that_the_configuration_of_qmd_names_are_used_and_none_is_missed(
    tmp_path, with_models, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command, search_mode="query")
    names = ("embed", "generate", "rerank")
    named = {name: with_models.pop(f"QMD_{name.upper()}_MODEL") for name in names}
    home = home_of(settings)
    home.prepare(with_models)
    write(home.config_file, json.dumps({"models": named}))
    async with open_qmd(settings, with_models) as backend:
        answer = await in_mode(backend, "rerank")
        assert (answer.model, answer.warning) == (named["embed"], None)
        status = await backend.status()
        assert (status.model, status.details.qmd.missing_models) == (named["embed"], ())


async def test_a_missing_model_means_words_only_at_once_and_is_said(
    tmp_path, notes, environment, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command, search_mode="query")
    async with open_qmd(settings, environment) as backend:
        answer = await answered(backend, "boiler")
        assert (answer.mode, answer.hits[0].path) == ("keyword", "MEMORY.md")
        assert "embeddinggemma" in answer.warning
        status = await backend.status()
        assert status.details.qmd.missing_models
        assert answer.warning in status.issues


async def test_one_embedding_run_at_a_time_on_the_machine(
    tmp_path, notes, with_models, qmd_command
):
    settings = qmd_settings(tmp_path, qmd_command, search_mode="vsearch")
    lock = os.open(embed_lock(with_models), os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        async with open_qmd(settings, with_models) as backend:
            await answered(backend, "boiler")

            async def waits() -> bool:
                return backend.engine.schedule.running == "embed"

            await until(waits, "embedding is due")
            assert (await backend.status()).sources[0].chunks == 0
            assert (await answered(backend, "boiler")).mode == "keyword"
            write(notes / "memory/new.md", "The zebra came by.\n")
            before = backend.engine.schedule.updated_at
            await backend.search(SearchRequest(query="zebra"))

            async def updated() -> bool:
                return backend.engine.schedule.updated_at != before

            await until(updated, "updates go on meanwhile")
            fcntl.flock(lock, fcntl.LOCK_UN)
            await in_mode(backend, "vector")
    finally:
        os.close(lock)


@pytest.mark.promises_seconds
async def test_a_broken_model_costs_no_answer(tmp_path, with_models, qmd_command):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes((tmp_path / "embed.gguf").read_bytes()[:2000])
    with_models["QMD_EMBED_MODEL"] = str(broken)
    settings = qmd_settings(tmp_path, qmd_command, search_mode="vsearch")
    async with open_qmd(settings, with_models) as backend:
        assert (await answered(backend, "boiler")).mode == "keyword"

        async def is_reported() -> bool:
            return any("embed failed" in issue for issue in (await backend.status()).issues)

        await until(is_reported, "status tells of the failed embedding")
        started = time.monotonic()
        assert (await backend.search(SearchRequest(query="boiler"))).hits
        assert time.monotonic() - started < 2
