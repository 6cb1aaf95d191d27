"""The results that a search with default settings must find: a floor for the sample workspace, so that no change of
the analyser, the chunks or the ranking makes it worse unnoticed, and the documented example queries.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import msgspec
import pytest

from backends.builtin.backend import BuiltinBackend, open_builtin
from backends.interface import SearchRequest, SyncRequest
from benchmarks.embedding_server import embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.minilm import MiniLM
from gateway.sample import sample_workspace
from tests.fakes.settings import make_settings, remote

pytestmark = pytest.mark.anyio

QUESTIONS = Path(__file__).parents[2] / "data" / "sample_questions.json"
FLOOR = 78
"""The least number of the 82 questions that are answered; measured with keywords alone."""
EXAMPLES = {
    "commits.md": "- The debounce fix is commit a828e60.\n- Reverted b717d51.\n",
    "settings.md": "- Weights are set with `memorySearch.query.hybrid` in the agent's file.\n",
    "vectors.md": "- Searches are slow where sqlite-vec is unavailable: every vector is read.\n",
    "gateway.md": "- The machine running the gateway stands in the cellar.\n",
    "garden.md": "- Tulips were planted along the fence.\n- The roses need water.\n",
    "kitchen.md": "- Bread needs four hours in the cold.\n- Borscht without sugar.\n",
    "music.md": "- The cello lesson moved to Thursday.\n",
}
EXACT_NAMES = [
    ("a828e60", "commits"),
    ("memorySearch.query.hybrid", "settings"),
    ("sqlite-vec unavailable", "vectors"),
]


async def shown(backend: BuiltinBackend, query: str) -> list[str]:
    answer = await backend.search(SearchRequest(query=query))
    return [" ".join(hit.snippet.split()) for hit in answer.hits]


async def missed(root: Path, search: dict[str, object]) -> set[str]:
    """Returns the questions about the sample workspace whose evidence is not all shown."""
    settings = make_settings(root, search=search)
    settings = msgspec.structs.replace(settings, workspace=sample_workspace())
    unanswered = set()
    async with open_builtin(settings) as backend:
        await backend.sync(SyncRequest())
        if search["provider"] != "none":
            await all_embedded(backend)
        for question in json.loads(QUESTIONS.read_text(encoding="utf-8")):
            snippets = await shown(backend, question["query"])
            wanted = [" ".join(one["text"].split()) for one in question["evidence"]]
            if not all(any(text in snippet for snippet in snippets) for text in wanted):
                unanswered.add(question["id"])
    return unanswered


async def test_in_the_sample_workspace_keywords_find_no_less_and_poor_vectors_hide_nothing(
    tmp_path,
):
    questions = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    assert {one["lang"] for one in questions} == {"en", "ru", "zh", "ja", "de"}
    by_words = await missed(tmp_path / "words", {"provider": "none"})
    assert len(questions) - len(by_words) >= FLOOR, by_words
    model = HashEmbedder()
    async with embedding_server(model) as server:
        search = embedding_by(server, model)
        assert await missed(tmp_path / "hybrid", search) <= by_words


def embedding_by(server, model):
    """Returns settings with which this server embeds."""
    access = remote(server.base_url, server.key)
    return {"provider": "openai", "model": model.name, "remote": access}


@pytest.fixture
def examples(tmp_path) -> Path:
    for name, text in EXAMPLES.items():
        path = tmp_path / "workspace/memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("query", "path"), EXACT_NAMES)
async def test_the_documented_queries_for_exact_names_work_by_keywords(examples, query, path):
    async with open_builtin(make_settings(examples, search={"provider": "none"})) as backend:
        await backend.sync(SyncRequest())
        answer = await backend.search(SearchRequest(query=query))
    assert answer.hits[0].path == f"memory/{path}.md"
    assert answer.hits[0].confidence == "likely"


async def test_the_documented_query_in_other_words_works_with_a_real_model(examples):
    model = MiniLM()
    async with embedding_server(model) as server:
        search = embedding_by(server, model)
        async with open_builtin(make_settings(examples, search=search)) as backend:
            await backend.sync(SyncRequest())
            await all_embedded(backend)
            for query, path in [("Mac Studio gateway host", "gateway"), *EXACT_NAMES]:
                answer = await backend.search(SearchRequest(query=query))
                assert (answer.mode, answer.hits[0].path) == ("hybrid", f"memory/{path}.md")


async def all_embedded(backend: BuiltinBackend) -> None:
    with anyio.fail_after(60):
        while True:
            report = (await backend.status()).details.vector.backfill
            if report and report.coverage.embedded == report.coverage.total > 0:
                return
            await anyio.sleep(0.05)
