"""The words of a query that are looked up, the number of chunks that are scored, and the counts that are cached."""

from __future__ import annotations

import gc
import weakref
from itertools import chain

import pytest

from backends.builtin import searching
from backends.builtin.searching import (
    LEAST_OF_LANE,
    Candidates,
    Frequencies,
    TermCounts,
    lookup,
    tiers,
)
from backends.builtin.store.port import PreparedChunk, PreparedFile, ReadFile
from backends.builtin.store.sqlite.keywords import pack, unpack
from backends.builtin.store.sqlite.store import SqliteStore
from backends.files.scan import FoundFile
from backends.ranking.query import Concept, Query
from fakes.each import each


def query_of(*words):
    return Query(tuple(Concept((word,)) for word in words), "english")


class Pile:
    """An index whose chunks contain exactly the given words."""

    def __init__(self, path):
        self.store = SqliteStore(path)
        self.frequencies = Frequencies()

    def write(self, path, *chunks):
        prepared = tuple(
            PreparedChunk(
                start=place,
                start_line=place + 1,
                end_line=place + 1,
                identity=f"{path} {place}".encode(),
                headings="",
                text=words,
                terms=words,
                context="",
                excerpts=(),
            )
            for place, words in enumerate(chunks)
        )
        read = ReadFile(FoundFile(path, 0, 1, 1, 1, 1), path.encode(), 1)
        with self.store.writer() as writer:
            writer.files.publish(read, "test", PreparedFile(prepared, None, frozenset()))

    def remove(self, path):
        with self.store.writer() as writer:
            writer.files.remove("memory", path)

    def counts(self, *words):
        with self.store.view() as view:
            documents = view.keywords.corpus().documents
            return self.frequencies.of(view.keywords, query_of(*words), documents)

    def found(self, *words, limit=10, offset=0, paths=None):
        """Returns the texts of the best chunks with their scores."""
        with self.store.view() as view:
            query = query_of(*words)
            cards = [
                card
                for card in view.files.all_cards(with_tags=False)
                if paths is None or card.path in paths
            ]
            documents = view.keywords.corpus().documents
            counts = self.frequencies.of(view.keywords, query, documents)
            matches = view.keywords.matches(
                lookup(query, counts, sum(card.chunks for card in cards)),
                None if paths is None else [card.id for card in cards],
            )
            return [(one.text, one.bm25) for one in matches.best(limit, offset)[0]]

    def parts(self, *words):
        """Returns the texts of each part of the candidates."""
        with self.store.view() as view:
            query = query_of(*words)
            documents = view.keywords.corpus().documents
            counts = self.frequencies.of(view.keywords, query, documents)
            matches = view.keywords.matches(lookup(query, counts, documents), None)
            parts = chain.from_iterable(Candidates(matches, wanted=24, vectors=None))
            return [[one.text for one in part] for part in parts]

    def texts(self, *words, **options):
        return [text for text, _ in self.found(*words, **options)]


@pytest.fixture
def pile(tmp_path):
    pile = Pile(tmp_path / "index.sqlite")
    yield pile
    pile.store.close()


@pytest.fixture
def narrow(monkeypatch):
    """An index in which few chunks may be scored."""
    monkeypatch.setattr(searching, "MIN_SCORED", 40)
    monkeypatch.setattr(searching, "ENOUGH", 5)


@pytest.mark.parametrize("strong", [1, LEAST_OF_LANE, 30, 70])
def test_candidates_that_words_hardly_find_are_a_part_of_their_own(pile, strong):
    pile.write("a.md", *(["boiler said"] * strong + ["said so"] * (70 - strong)))
    first, *rest = pile.parts("boiler", "said")
    assert first[:strong] == ["boiler said"] * strong
    assert len(first) == max(strong, LEAST_OF_LANE)
    assert [len(part) for part in rest] == ([70 - len(first)] if len(first) < 70 else [])


def test_candidates_that_words_find_alike_are_one_part(pile):
    pile.write("a.md", *(f"boiler said {number}" for number in range(70)))
    (part,) = pile.parts("boiler", "said")
    assert len(part) == 70


def names(groups):
    return [[concept.alternatives[0] for concept in group] for group in groups]


def test_the_rarest_words_are_looked_up_together_and_each_other_alone():
    counts = TermCounts(1_000, {"said": 900, "boiler": 30, "valve": 5, "pump": 80, "absent": 0})
    query = query_of("said", "boiler", "absent", "pump", "valve")
    assert names(tiers(query, counts, 100)) == [["valve", "boiler"], ["pump"], ["said"]]
    assert names(tiers(query, counts, 1_000)) == [["valve", "boiler", "pump", "said"]]
    assert names(tiers(query, counts, 1)) == [["valve"], ["boiler"], ["pump"], ["said"]]


def test_a_query_of_unknown_words_looks_up_nothing():
    assert names(tiers(query_of("absent"), TermCounts(10, {"absent": 0}), 100)) == []


def test_of_a_long_query_the_rarest_words_count():
    words = [f"word{number}" for number in range(500)]
    counts = TermCounts(10_000, {word: number + 1 for number, word in enumerate(words)})
    (together, *_) = names(tiers(query_of(*reversed(words)), counts, 1_000_000))
    assert together == words[: searching.MAX_CONCEPTS]


def test_words_that_are_everywhere_are_skipped_when_rarer_ones_exist(pile, narrow):
    pile.write("memory/a.md", *["said something"] * 90, *["said boiler"] * 9)
    assert pile.texts("said", "boiler", limit=100) == ["said boiler"] * 9


def test_words_that_are_everywhere_answer_where_rare_ones_find_too_little(pile, narrow):
    pile.write("memory/a.md", "said boiler", *["said something"] * 90)
    found = pile.texts("said", "boiler", limit=10)
    assert found[0] == "said boiler"
    assert found[1:] == ["said something"] * 9


def test_of_too_many_chunks_the_newest_are_scored(pile, narrow):
    pile.write("memory/a.md", *[f"said old{number}" for number in range(60)])
    pile.write("memory/b.md", *[f"said new{number}" for number in range(40)])
    found = pile.texts("said", limit=100)
    assert sorted(found) == sorted(f"said new{number}" for number in range(40))


def test_a_filter_that_permits_little_is_searched_for_every_word(pile, narrow):
    pile.write("memory/a.md", *["said boiler"] * 30, *["said something"] * 60)
    pile.write("memory/b.md", "said nothing", "boiler noise", "else")
    assert pile.texts("said", "boiler", paths=["memory/b.md"]) == ["boiler noise", "said nothing"]
    assert pile.texts("said", paths=[]) == []


def test_scores_of_several_lookups_add_up_to_those_of_one(pile, monkeypatch):
    texts = ["said boiler", "said said pump", "boiler pump valve", "said", "nothing at all"]
    pile.write("memory/a.md", *texts * 3)
    together = pile.found("said", "boiler", "pump", limit=50)
    monkeypatch.setattr(searching, "MIN_SCORED", 12)
    apart = pile.found("said", "boiler", "pump", limit=50)
    assert [text for text, _ in apart] == [text for text, _ in together]
    assert [score for _, score in apart] == pytest.approx([score for _, score in together])


def test_blocks_continue_each_other_and_equal_scores_come_by_path_and_place(pile):
    pile.write("memory/b.md", *["boiler x"] * 3)
    pile.write("memory/a.md", *["boiler y"] * 3)
    whole = pile.texts("boiler", limit=6)
    assert whole == ["boiler y"] * 3 + ["boiler x"] * 3
    parts = [pile.texts("boiler", limit=2, offset=offset) for offset in range(0, 8, 2)]
    assert parts == [whole[0:2], whole[2:4], whole[4:6], []]


def test_common_words_are_counted_once_while_the_index_stays_as_large(pile):
    pile.write("memory/a.md", *["said"] * 2_000)
    assert pile.counts("said", "rare").by_term == {"said": 2_000, "rare": 0}
    pile.write("memory/b.md", "said rare")
    assert pile.counts("said", "rare") == TermCounts(2_001, {"said": 2_000, "rare": 1})
    pile.write("memory/c.md", *["said"] * 100)
    assert pile.counts("said").by_term == {"said": 2_101}


def test_counts_follow_an_index_that_shrinks(pile):
    pile.write("memory/a.md", *["said"] * 1_500)
    pile.write("memory/b.md", *["said"] * 500)
    assert pile.counts("said").by_term == {"said": 2_000}
    pile.remove("memory/a.md")
    assert pile.counts("said").by_term == {"said": 500}


def test_what_is_remembered_is_bounded(pile, monkeypatch):
    monkeypatch.setattr(searching, "COUNTS_BYTES", 500)  # two words
    pile.frequencies = Frequencies()
    monkeypatch.setattr(searching, "COMMON", 0)
    monkeypatch.setattr(searching, "DRIFT", 0)  # cached counts are never counted again
    words = ("one", "two", "three", "four")
    pile.write("memory/a.md", " ".join(words))
    assert list(pile.counts(*words).by_term.values()) == [1, 1, 1, 1]
    pile.write("memory/b.md", " ".join(words))
    assert sum(count == 1 for count in pile.counts(*words).by_term.values()) == 2


@each("text", ["", "The boiler.", "Die Küche, 台所 и кухня 🦅\n", "word " * 3_000])
def test_packed_words_come_back_as_they_were(text):
    terms, context, headings = f"{text.lower()}\nsecond line", "memory küche 台所", "# Küche"
    chunk = PreparedChunk(0, 1, 2, b"", headings, text, terms, context, ())
    assert unpack(pack(chunk), text) == (terms, context, headings)


def test_packed_words_take_little_space_beside_their_text():
    text = " ".join(f"word{number} boiler serviced" for number in range(60))
    chunk = PreparedChunk(0, 1, 1, b"", "", text, text.replace("serviced", "servic"), "memory", ())
    assert len(pack(chunk)) < len(text) / 5


def test_what_a_search_found_is_freed_at_its_end(pile):
    pile.write("memory/a.md", "boiler", "boiler pump")
    with pile.store.view() as view:
        matches = view.keywords.matches(lookup(query_of("boiler"), pile.counts("boiler"), 2), None)
        assert matches.best(1)[0]
        found = weakref.ref(matches)
        gc.disable()
        try:
            del matches
            assert found() is None
        finally:
            gc.enable()
