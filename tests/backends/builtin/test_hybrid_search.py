"""Keywords and vectors together: each finds what the other misses, and neither buries the other."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from itertools import chain
from types import FunctionType

import numpy as np
import pytest

from backends.builtin.searching import (
    LEAST_OF_LANE,
    Candidates,
    Frequencies,
    Searcher,
    VectorLane,
    lookup,
)
from backends.builtin.store.opening import connect
from backends.interface import SearchRequest
from backends.ranking.query import QueryAnalyser
from config.settings import HybridSettings, QuerySettings, VectorStoreSettings
from providers.provider_interface import Fingerprint, QueryVector

pytestmark = [pytest.mark.anyio, pytest.mark.every_store, pytest.mark.and_pooled]

OURS = Fingerprint(provider="openai", model="m", endpoint="e")
OTHER = Fingerprint(provider="openai", model="another", endpoint="e")
NOBODY = Fingerprint(provider="openai", model="never used", endpoint="e")


def axis(number, *, towards=None, share=0.0, dimensions=8):
    """A unit vector along one axis, turned by some share towards another."""
    vector = np.zeros(dimensions, np.float32)
    vector[number] = 1.0
    if towards is not None:
        vector[towards] += share
    return vector / np.linalg.norm(vector)


class Shelf:
    """Notes with given vectors, searched without a provider."""

    def __init__(self, home):
        self.home = home
        self.store = connect(home.settings)
        self.store.open_vectors(VectorStoreSettings())

    def give(self, path, vector, fingerprint=OURS):
        """Gives all excerpts of a note this vector."""
        note = (self.home.workspace / path).read_text()
        with self.store.writer() as writer:
            every = writer.embeddings.pending(NOBODY, limit=1_000)
            hashes = [key for key, text in every if text in note]
            writer.embeddings.put(fingerprint, [(key, vector) for key in hashes])

    def search(self, query, vector=None, fingerprint=OURS, settings=None, **fields):
        asked = QueryVector(vector, fingerprint) if vector is not None else None
        search = self.home.settings.search
        if settings is not None:
            search = type(search)(store=search.store, query=settings)
        request = SearchRequest(query=query, **{"min_score": 0.0, "max_results": 50} | fields)
        with self.store.view() as view:
            return Searcher(search).search(view, request, asked)


@pytest.fixture
async def shelf(home):
    home.write("memory/boiler.md", "The boiler was serviced in October.\n")
    home.write("memory/heating.md", "Warmth came back to the house.\n")
    home.write("memory/garden.md", "Tulips were planted along the fence.\n")
    await home.synced()
    shelf = Shelf(home)
    for number, name in enumerate(["boiler", "heating", "garden"]):
        shelf.give(f"memory/{name}.md", axis(number))
    yield shelf
    shelf.store.close()


def paths(found):
    return [hit.path.removeprefix("memory/").removesuffix(".md") for hit in found.hits]


async def test_what_shares_no_word_with_the_query_is_found_by_its_vector(shelf):
    found = shelf.search("radiators", axis(1, towards=0, share=0.1), min_score=0.35)
    assert found.mode == "hybrid"
    assert paths(found)[0] == "heating"
    assert found.hits[0].score > 0.9
    assert found.hits[0].vector_score == pytest.approx(0.995, abs=1e-3)
    assert found.hits[0].text_score == 0


async def test_an_explanation_tells_what_either_lane_gave_and_how_it_counts(shelf):
    lanes = HybridSettings(text_weight=0.3, vector_weight=0.35)
    settings = QuerySettings(hybrid=lanes)
    found = shelf.search("boiler serviced", axis(0), settings=settings, explain=True)
    text, vector = found.hits[0].explain["text"], found.hits[0].explain["vector"]
    assert (text["weight"], vector["weight"]) == (1.0, 0.5)
    assert text["calibrated"] == found.hits[0].text_score
    assert vector["raw"] == found.hits[0].vector_score == 1.0
    assert vector["calibrated"] > 0
    assert (text["rank"], vector["rank"]) == (1, 1)


async def test_an_explanation_tells_the_place_in_each_lane(shelf):
    hits = shelf.search("boiler serviced", axis(0), explain=True).hits
    for lane in ("text", "vector"):
        shares = [hit.explain[lane] for hit in hits if hit.explain[lane]]
        ranks = [one["rank"] for one in sorted(shares, key=lambda one: -one["raw"])]
        placed = [rank for rank in ranks if rank is not None]
        assert placed == sorted(placed)
        assert all((one["rank"] is None) == (one["raw"] <= 0) for one in shares)


async def test_an_exact_word_is_not_buried_by_near_vectors(shelf):
    found = shelf.search("tulips", axis(1, towards=0, share=0.9))
    assert paths(found)[0] == "garden"
    assert found.hits[0].score > 0.35


async def test_a_note_without_a_vector_is_found_by_its_words(shelf, home):
    home.write("memory/new.md", "The greenhouse sensor is frozen.\n")
    await home.synced()
    found = shelf.search("greenhouse", axis(0))
    assert paths(found)[0] == "new"
    assert found.hits[0].vector_score is None


async def test_without_the_querys_vector_keywords_answer(shelf):
    found = shelf.search("boiler")
    assert (found.mode, paths(found)) == ("keyword", ["boiler"])
    assert found.hits[0].vector_score is None


async def test_vectors_of_another_fingerprint_take_no_part(shelf):
    shelf.give("memory/garden.md", axis(5), OTHER)
    mine = shelf.search("nothing of that", axis(5))
    assert mine.hits == ()
    other = shelf.search("nothing of that", axis(5), OTHER, min_score=0.35)
    assert (paths(other), other.mode) == (["garden"], "hybrid")


async def test_a_fingerprint_without_vectors_leaves_the_keywords(shelf):
    found = shelf.search("boiler", axis(0), OTHER)
    assert (found.mode, paths(found)) == ("keyword", ["boiler"])


async def test_a_query_of_another_length_leaves_the_keywords(shelf):
    found = shelf.search("boiler", axis(0, dimensions=12))
    assert (found.mode, paths(found)) == ("keyword", ["boiler"])
    assert found.obstacle == "the query has 12 dimensions and the stored vectors have 8"


async def test_a_vector_of_zeros_leaves_the_keywords(shelf):
    found = shelf.search("boiler", np.zeros(8, np.float32))
    assert (found.mode, paths(found)) == ("keyword", ["boiler"])


async def test_notes_that_are_equal_in_both_lanes_come_in_the_order_of_their_paths(shelf, home):
    for name in ("c", "a", "b"):
        home.write(f"memory/{name}.md", f"The pump of house {name}.\n")
    await home.synced()
    for name in ("b", "c", "a"):
        shelf.give(f"memory/{name}.md", axis(5))
    found = shelf.search("pump", axis(5))
    assert paths(found)[:3] == ["a", "b", "c"]


async def test_the_only_note_is_found_by_its_vector(home):
    home.write("memory/heating.md", "Warmth came back to the house.\n")
    await home.synced()
    shelf = Shelf(home)
    shelf.give("memory/heating.md", axis(1))
    found = shelf.search("radiators", axis(1, towards=0, share=0.5), min_score=0.35)
    assert paths(found) == ["heating"]
    assert found.hits[0].vector_score == pytest.approx(0.894, abs=1e-3)
    shelf.store.close()


async def test_the_files_that_may_be_searched_hold_for_vectors_too(shelf):
    found = shelf.search("radiators", axis(1), exclude=("memory/heating.md",))
    assert "heating" not in paths(found)
    nothing = shelf.search("radiators", axis(1), include=("memory/absent.md",))
    assert (paths(nothing), nothing.mode) == ([], "keyword")


async def test_asking_for_fewer_gives_the_first_of_them(shelf, home):
    for number in range(60):
        home.write(f"memory/n{number:02}.md", f"Note {number} about the boiler and its valve.\n")
    await home.synced()
    rng = np.random.default_rng(7)
    for number in range(0, 60, 2):
        vector = rng.standard_normal(8).astype(np.float32)
        shelf.give(f"memory/n{number:02}.md", vector / np.linalg.norm(vector))
    everything = shelf.search("boiler valve", axis(3), max_results=200)
    assert len(everything.hits) > 50
    scores = [hit.score for hit in everything.hits]
    assert scores == sorted(scores, reverse=True)
    for count in (1, 7, 30):
        assert (
            shelf.search("boiler valve", axis(3), max_results=count).hits
            == (everything.hits[:count])
        )


@pytest.mark.parametrize("is_enabled", [True, False], ids=["both", "vectors"])
async def test_candidates_that_neither_lane_finds_well_are_a_part_of_their_own(
    shelf, home, is_enabled
):
    for number in range(40):
        home.write(f"memory/tea{number:02}.md", f"Tea of day {number}.\n")
    await home.synced()
    for number in range(40):
        shelf.give(f"memory/tea{number:02}.md", axis(0, towards=1, share=0.1 + number / 10))
    with shelf.store.view() as view:
        query = QueryAnalyser(["english"]).analyse("boiler")
        counts = Frequencies().of(view.keywords, query, view.keywords.corpus().documents)
        matches = view.keywords.matches(lookup(query, counts, 43), None)
        lane = VectorLane.open(view, QueryVector(axis(0), OURS), None)
        candidates = Candidates(matches, wanted=24, vectors=lane, keywords=is_enabled)
        parts = chain.from_iterable(candidates)
        first, *others = [[one.path for one in part] for part in parts]
    nearest = [f"memory/tea{number:02}.md" for number in range(LEAST_OF_LANE - 1)]
    assert first[:LEAST_OF_LANE] == ["memory/boiler.md", *nearest]
    assert [len(part) for part in (first, *others)] == ([16, 27] if is_enabled else [43])


class TestVectorsOnly:
    """A search with `query.hybrid.enabled = false`."""

    SETTINGS = QuerySettings(hybrid=HybridSettings(enabled=False))

    async def test_words_take_no_part_once_every_note_has_its_vector(self, shelf):
        found = shelf.search("tulips", axis(1), settings=self.SETTINGS, min_score=0.35)
        assert (found.mode, paths(found)) == ("vector", ["heating"])

    async def test_words_find_what_has_no_vector_yet(self, shelf, home):
        home.write("memory/new.md", "The greenhouse sensor is frozen.\n")
        await home.synced()
        found = shelf.search("greenhouse", axis(0), settings=self.SETTINGS)
        assert found.mode == "hybrid"
        assert "new" in paths(found)

    async def test_without_any_comparable_vector_keywords_answer(self, shelf):
        for vector, fingerprint in ((axis(0, dimensions=12), OURS), (axis(0), OTHER)):
            found = shelf.search("tulips", vector, fingerprint, settings=self.SETTINGS)
            assert (found.mode, paths(found)) == ("keyword", ["garden"])


async def test_both_strategies_of_fusion_find_by_word_and_by_vector(shelf):
    for fusion in ("weighted", "rrf"):
        settings = QuerySettings(hybrid=HybridSettings(fusion=fusion))
        found = shelf.search("tulips", axis(1), settings=settings)
        assert paths(found)[:2] == ["garden", "heating"]


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("vector", [None, axis(0)], ids=["words", "both"])
async def test_a_search_leaves_nothing_to_the_collector(shelf, fusion, vector):
    query = QuerySettings(hybrid=HybridSettings(fusion=fusion))
    shelf.search("boiler", vector, settings=query)  # what is made once
    with collected() as values:
        found = shelf.search("boiler", vector, settings=query, max_results=1, explain=True)
    assert paths(found) == ["boiler"]
    assert [value for value in values if is_of_a_search(value)] == []


@contextmanager
def collected():
    """Yields a list that gets the objects of any thread that only the garbage collector freed by the end."""
    values = []
    gc.collect()
    gc.freeze()  # references of threads of earlier tests
    gc.disable()
    try:
        yield values
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        values += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


def is_of_a_search(value):
    """Returns whether it is a function or an object of ours: each reference cycle of a search has such a member."""
    home = value.__module__ if isinstance(value, FunctionType) else type(value).__module__
    return home.startswith(("backends.ranking", "backends.builtin.searching"))
