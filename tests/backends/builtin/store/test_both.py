"""Two stores that are given the same operations answer the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backends.builtin.searching import Frequencies, lookup
from backends.builtin.store.port import Store, Word
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.store.sqlite.store import SqliteStore
from backends.ranking.query import QueryAnalyser
from config.settings import VectorStoreSettings
from providers.provider_interface import Fingerprint

from .conftest import Shelf

EXAMPLES = 25
FINGERPRINT = Fingerprint(provider="test", model="directions", endpoint="loopback")
WORDS = """
    boiler boilers pump valve kiwi kiwano 2026-03-01 memorySearch.query.hybrid a828e60 don't naïve straße
    水泵 锅炉 ボイラー насос 🔧 U+0000:\0 "quoted" OPENAI_API_KEY
""".split()
PATHS = [f"memory/{name}.md" for name in ("a", "b", "2026-03-01", "Ünï", "deep/c")]

texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=6).map(
    "\n".join
)
operations = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(PATHS), texts),
    st.tuples(st.just("publish"), st.sampled_from(PATHS), texts),
    st.tuples(st.just("remove"), st.sampled_from(PATHS), st.none()),
    st.tuples(st.just("touch"), st.sampled_from(PATHS), texts),
    st.tuples(st.just("embed"), st.none(), st.none()),
    st.tuples(st.just("prune"), st.none(), st.none()),
    st.tuples(st.just("fail"), st.none(), st.none()),
)
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


@pytest.fixture(scope="module")
def pairs(postgres_server, tmp_path_factory) -> Callable[[], tuple[SqliteStore, PostgresStore]]:
    """Makes pairs of new stores."""
    root, numbers = tmp_path_factory.mktemp("pairs"), count()

    def make() -> tuple[SqliteStore, PostgresStore]:
        place = root / f"{next(numbers)}.sqlite"
        rows = PostgresStore(postgres_server.settings(path=place), "main", viewpoint="here")
        return SqliteStore(place, viewpoint="here"), rows

    return make


def vector_of(text: str) -> np.ndarray:
    """Returns a direction that depends on the text alone."""
    numbers = np.array([text.count(word) + 0.01 * len(text) + 0.001 for word in WORDS], np.float32)
    return numbers / np.linalg.norm(numbers)


def apply(store: Store, at: int, kind: str, path: str | None, text: str | None) -> Any:
    shelf = Shelf(store)
    with store.writer() as writer:
        match kind:
            case "publish":
                return shelf.put(writer, path, text, at=at)
            case "remove":
                return writer.files.remove("memory", path)
            case "touch":
                writer.files.touch(shelf.read(path, text, at=at))
            case "embed":
                pending = writer.embeddings.pending(FINGERPRINT, limit=5)
                if pending:
                    vectors = [(key, vector_of(text)) for key, text in pending]
                    writer.embeddings.put(FINGERPRINT, vectors)
                return [text for _, text in pending]
            case "fail":
                pending = writer.embeddings.pending(FINGERPRINT, limit=1)
                writer.embeddings.record_failures(
                    FINGERPRINT, [(key, "refused") for key, _ in pending]
                )
            case "prune":
                writer.embeddings.refresh_use(writer.embeddings.fallen_out_of_use())
                writer.embeddings.forget_gone()
                return writer.embeddings.prune(2)
    return None


def state(store: Store) -> Any:
    """Everything that the port shows, without ids."""
    with store.view() as view:
        cards = view.files.all_cards(with_tags=True)
        by_id = view.files.cards([card.id for card in cards])
        return {
            "corpus": view.keywords.corpus(),
            "indexed": view.files.indexed(),
            "cards": sorted((card.path, card.chunks, card.note_date) for card in by_id.values()),
            "names": list(view.files.names()),
            "count": view.files.count("memory"),
            "overview": view.files.overview(),
            "backlog": sorted(view.embeddings.backlog(FINGERPRINT)),
            "coverage": view.embeddings.coverage(FINGERPRINT),
            "failed": view.embeddings.failed_texts(FINGERPRINT, limit=9),
            "pending": [text for _, text in view.embeddings.pending(FINGERPRINT, limit=99)],
            "words": view.keywords.count(
                [
                    Word(w, is_prefix)
                    for w in ("boiler", "ki", "kiwi")
                    for is_prefix in (False, True)
                ]
            ),
        }


def found(store: Store, query: str, only: int | None) -> list[Any]:
    """Returns what a query finds by its words, in order and with scores."""
    with store.view() as view:
        corpus = view.keywords.corpus()
        analysed = QueryAnalyser(corpus.languages).analyse(query)
        counts = Frequencies().of(view.keywords, analysed, corpus.documents)
        cards = sorted(view.files.all_cards(with_tags=False), key=lambda card: card.path)
        files = None if only is None else [card.id for card in cards[:only]]
        results = []
        for most, enough in ((1_000, 200), (1_000, 1)):
            looked_up = lookup(analysed, counts, corpus.documents)
            wanted = msgspec.structs.replace(looked_up, most=most, enough=enough)
            matches = view.keywords.matches(wanted, files)
            every, _ = matches.best(99)
            also = [one.chunk_id for one in reversed(every)]
            results += [every, *matches.best(3, 0, also), *matches.best(99, 3, also)]
            results += matches.best(0, 0, also)
        return [
            [(one.path, one.start, one.text, one.terms, one.context, one.bm25) for one in block]
            for block in results
        ]


def nearest(store: Store, query: str) -> list[Any]:
    with store.view() as view:
        space = view.vectors(FINGERPRINT)
        vector = vector_of(query)
        if space is None or space.is_empty:
            return []
        answer = space.search(vector, limit=6)
        chunks = space.chunks_of([hit.excerpt_id for hit in answer.hits])
        excerpts = space.excerpts(
            vector, chunks, {hit.excerpt_id: hit.cosine for hit in answer.hits}
        )
        background = space.background(vector)
        return [
            sorted(round(hit.cosine, 5) for hit in answer.hits),
            sorted(len(excerpts.get(chunk, ())) for chunk in chunks),
            background and (round(background.mean, 5), round(background.deviation, 5)),
            space.covers_all(len(vector)),
        ]


def assert_same(one: list[Any], other: list[Any]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert [row[:-1] for row in mine] == [row[:-1] for row in theirs]
        assert [row[-1] for row in mine] == pytest.approx([row[-1] for row in theirs], abs=1e-9)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(operations, max_size=12),
    asked=st.lists(queries, min_size=1, max_size=3),
    only=st.sampled_from([None, None, 0, 1, 3]),
)
@example(
    steps=[("publish", path, "boiler pump\n") for path in PATHS] + [("embed", None, None)],
    asked=["boiler pumps"],
    only=None,
)
def test_the_same_operations_give_the_same_answers(pairs, steps, asked, only):
    with ExitStack() as stack:
        both = [stack.enter_context(closing(store)) for store in pairs()]
        for store in both:
            store.open_vectors(VectorStoreSettings())
        for number, step in enumerate(steps):
            one, other = (apply(store, number + 1, *step) for store in both)
            assert one == other, step
        one, other = map(state, both)
        assert one == other
        for query in asked:
            assert_same(*(found(store, query, only) for store in both))
            one, other = (nearest(store, query) for store in both)
            assert one == other
