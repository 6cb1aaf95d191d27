"""Loading any configuration file gives settings within their bounds or a typed error."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyjson5
from hypothesis import given
from hypothesis import strategies as st

from config.describe import describe_json
from config.errors import ConfigInvalidError
from config.loading import load_settings
from config.sections import SECTIONS
from config.settings import Settings
from config.source.discover import LoadRequest

NAMES = sorted({part for s in SECTIONS for k in s.keys for part in k.path.split(".")})
PLACES = sorted({part for s in SECTIONS for place in s.places for part in place.split(".")})

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**12),
    st.floats(width=32),
    st.sampled_from(["", "openai", "5m", "${HOME}", "${MISSING}", "~/x", "memory", "allow", "\0"]),
    st.text(max_size=5),
)
names = st.sampled_from(
    ["id", "path", "memory", "agents", "list", "defaults", *NAMES, *PLACES, "zz"]
)
trees = st.recursive(
    odd_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=25,
)


def load(document: object) -> Settings | ConfigInvalidError:
    """Returns the settings for a document, or the error that refuses it."""
    with tempfile.TemporaryDirectory() as home:
        config = Path(home) / "openclaw.json"
        config.write_text(pyjson5.dumps(document), encoding="utf-8")
        request = LoadRequest(environment={"HOME": home}, cwd=Path(home), config_path=config)
        try:
            return load_settings(request)
        except ConfigInvalidError as error:
            return error


def check(loaded: Settings | ConfigInvalidError) -> None:
    if isinstance(loaded, ConfigInvalidError):
        assert loaded.problems
        assert all(problem.line for problem in loaded.problems)
        assert loaded.remedy
    else:
        check_bounds(loaded)


def check_bounds(loaded: Settings) -> None:
    search = loaded.search
    assert 0 <= search.chunking.overlap < search.chunking.tokens
    assert search.sources
    assert 0 <= search.query.min_score <= 1
    hybrid = search.query.hybrid
    assert abs(hybrid.vector_weight + hybrid.text_weight - 1) < 1e-6
    assert 1 <= hybrid.candidate_multiplier <= 20
    assert search.store.path.is_absolute()
    assert loaded.workspace.is_absolute()
    describe_json(loaded)


@given(document=st.dictionaries(st.sampled_from(PLACES), trees, max_size=4))
def test_any_document_loads_or_is_refused(document):
    check(load(document))


@given(
    document=st.dictionaries(names, trees, max_size=5),
    agent=st.dictionaries(names, trees, max_size=3),
)
def test_any_memory_section_loads_or_is_refused(document, agent):
    agents = {"defaults": {"memorySearch": document}, "list": [{"id": "a", "memorySearch": agent}]}
    check(load({"agents": agents, "memory": document}))


weights = st.floats(0, 1, allow_nan=False)


@given(vector=weights, text=weights, tokens=st.integers(1, 5000), overlap=st.integers(0, 9000))
def test_valid_numbers_always_load(vector, text, tokens, overlap):
    search = {
        "query": {"hybrid": {"vectorWeight": vector, "textWeight": text}},
        "chunking": {"tokens": tokens, "overlap": overlap},
    }
    loaded = load({"memorySearch": search})
    assert loaded is not None
    check_bounds(loaded)
    hybrid = loaded.search.query.hybrid
    assert (
        hybrid.vector_weight * text == hybrid.text_weight * vector
        or abs(hybrid.vector_weight * text - hybrid.text_weight * vector) < 1e-6
        or vector == text == 0
    )
