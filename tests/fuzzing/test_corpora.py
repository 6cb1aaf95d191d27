"""Every input that a fuzzer found worth keeping, and mutations of them, through the parsers they are meant for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from endurance.fuzz import FOUND, TARGETS, directory, inputs
from fakes.each import each

OVER_SOCKETS = ("openai", "gemini", "voyage", "qmd-answer", "qmd-server")
EXAMPLES = {
    name: settings.default.max_examples // (4 if name in OVER_SOCKETS else 1) for name in TARGETS
}


@each("name", TARGETS)
def test_everything_that_was_kept_is_taken(name):
    run = TARGETS[name].load()
    kept = inputs(directory(name))
    assert kept
    assert {run(data) for data in kept} == {None}  # a fault is raised


@st.composite
def mutations(draw, seeds):
    """Draws parts of known inputs, put together, with some bytes changed."""
    parts = draw(st.lists(st.sampled_from(seeds), min_size=1, max_size=3))
    data = bytearray()
    for part in parts:
        start = draw(st.integers(0, len(part)))
        data += part[start : draw(st.integers(start, len(part)))]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(data)


@each("name", TARGETS)
def test_whatever_comes_is_taken(name):
    run = TARGETS[name].load()
    seeds = inputs(directory(name))

    @settings(max_examples=EXAMPLES[name])
    @given(st.binary(max_size=200) | mutations(seeds))
    def take(data):
        assert run(data) is None

    take()


def test_the_corpora_stay_small():
    sizes = [path.stat().st_size for path in directory("").rglob("*") if path.is_file()]
    assert sum(sizes) < 400_000
    assert all(size <= 16_384 for size in sizes)


def test_each_corpus_belongs_to_a_target():
    assert {path.name for path in directory("").iterdir()} == set(TARGETS)
    assert any(directory("").rglob(f"{FOUND}*"))
