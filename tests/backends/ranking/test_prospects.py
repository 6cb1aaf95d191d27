"""What a file can offer at most is known before it is weighed, and few files need to be."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backends.chunking import ChunkLimits
from backends.ranking import fusion
from backends.ranking.evidence import Background, Excerpt, Lanes, units_of
from backends.ranking.fusion import PassageRanker

QUERY = "boiler membrane pressure valve"
WORDS = [*QUERY.split(), "garden", "walk", "lunch", "letter", "\n", "\n"]
BACKGROUND = Background(mean=0.1, deviation=0.1, dimensions=384)


@pytest.fixture(scope="module")
def proposed(candidates_of):
    """Candidates of some files of random words, in overlapping chunks, some with vectors."""

    def make(seed):
        rng = random.Random(seed)
        found = []
        for file_id in range(1, 12):
            text = " ".join(rng.choices(WORDS, k=rng.randrange(2, 300)))
            limits = ChunkLimits(tokens=rng.choice([40, 400]), overlap=10)
            for one in candidates_of(text, file_id=file_id, limits=limits):
                half = len(one.text) // 2
                cosine, freshness = rng.uniform(-0.2, 0.9), rng.choice([1.0, rng.uniform(0.1, 1)])
                excerpts = rng.choice([(), (Excerpt(0, half, cosine),)])
                bm25 = rng.choice([0.0, rng.uniform(0, 12)])
                found.append(replace(one, bm25=bm25, excerpts=excerpts, freshness=freshness))
        return found

    return make


def rank(ranker, candidates):
    """Everything but the texts, which follow from the places."""
    return [
        (one.passage.file_id, one.passage.start, one.score, one.fused)
        for one in ranker.rank(candidates)
    ]


@given(seed=st.integers(0, 10_000), vector=st.sampled_from([0.0, 0.7, 1.0]))
def test_files_that_are_not_weighed_have_nothing_to_offer(proposed, weigh, seed, vector):
    options = {
        "max_chars": 200,
        "lanes": Lanes.of(1 - vector, vector),
        "background": BACKGROUND if vector else None,
        "min_score": 0.1,
    }
    candidates = proposed(seed)
    some = rank(PassageRanker(weigh(QUERY), **options), candidates)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "most_mass", lambda *_, **__: math.inf)
        every = rank(PassageRanker(weigh(QUERY), **options), candidates)
    assert some == every


@given(seed=st.integers(0, 10_000))
def test_no_selection_has_more_than_its_file_was_said_to_have(proposed, weigh, seed):
    weights, lanes = weigh(QUERY), Lanes.of(0.3, 0.7)
    ranker = PassageRanker(weights, max_chars=200, lanes=lanes, background=BACKGROUND)
    for prospect in ranker._prospects(ranker._proposals(proposed(seed)), lanes):
        best = prospect.file.best()
        assert best is None or best.mass <= prospect.most_mass


def test_a_file_far_behind_is_never_weighed(candidates_of, weigh, monkeypatch):
    weighed = []
    monkeypatch.setattr(
        fusion, "units_of", lambda chunks, real=units_of: weighed.append(1) or real(chunks)
    )
    strong = candidates_of("The boiler membrane lost pressure.", file_id=1, bm25=9.0)
    weak = [
        one
        for number in range(2, 30)
        for one in candidates_of("A boiler.", file_id=number, bm25=0.1)
    ]
    ranked = PassageRanker(weigh("boiler membrane"), max_chars=700).rank(strong + weak)
    assert next(ranked).passage.file_id == 1
    assert len(weighed) == 1
