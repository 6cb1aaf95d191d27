"""The pure parts: quantisation, segments, choosing the best."""

import gc
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.builtin.store.sqlite.resident import (
    SEGMENT_ROWS,
    Coded,
    Float32Kernel,
    Int8Kernel,
    Segment,
    _best,
    arranged,
    contained,
    find_rows,
)
from backends.builtin.store.sqlite.vector_engines import row_lengths
from fakes.each import each

SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 300), st.integers(0, 2**32 - 1))


def vectors_of(rows, dimensions, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((rows, dimensions)) * 10.0 ** rng.integers(-6, 6, (rows, 1))
    vectors[:, 0] += 1e-9
    return vectors.astype(np.float32)


@given(SHAPES)
def test_a_kernel_scores_the_cosine_within_its_rounding(shape):
    rows, dimensions, seed = shape
    vectors, query = vectors_of(rows, dimensions, seed), vectors_of(1, dimensions, seed + 1)
    units = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit = (query / np.linalg.norm(query.astype(np.float64)))[0]
    for kernel, steps in ((Int8Kernel(), 127), (Float32Kernel(), 2**22)):
        code, out = kernel.encode(query), np.empty(rows, np.float32)
        kernel.score(kernel.encode(vectors), code, out)
        scores = out.astype(np.float64) * code.scales[0]
        # each number is off by half a step of its vector's largest, on both sides
        peaks = np.abs(units).max(axis=1) + np.abs(unit).max()
        bound = math.sqrt(dimensions) * peaks / (2 * steps) * 1.01 + 1e-6
        assert (np.abs(scores - units @ unit) <= bound).all()


@pytest.mark.parametrize("kernel", [Int8Kernel(), Float32Kernel()])
def test_scoring_loses_no_reference_that_the_interpreter_lives_on(kernel):
    rows, out = kernel.encode(vectors_of(3, 16, 1)), np.empty(3, np.float32)
    gc.collect()  # what earlier tests left gives its references back now, not below
    before = sys.getrefcount(None)
    for _ in range(1_000):
        kernel.score(rows, rows._replace(matrix=rows.matrix[:1]), out)
    assert sys.getrefcount(None) > before - 500


@given(SHAPES)
def test_int8_uses_its_whole_range_for_every_vector(shape):
    coded = Int8Kernel().encode(vectors_of(*shape))
    assert coded.matrix.dtype == np.int8
    assert (np.abs(coded.matrix.astype(int)).max(axis=1) == 127).all()
    assert np.isfinite(coded.scales).all()


@given(st.lists(st.integers(-4, 4), max_size=60), st.integers(1, 70))
def test_the_best_are_the_highest_and_of_equal_ones_the_first(scores, count):
    array = np.array(scores, np.float32)
    expected = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:count]
    assert sorted(_best(array, count).tolist()) == sorted(expected)


@each("values", [3, 50, 10**6])
@each("size", [999, 5_000, 20_001])
@each("count", [1, 10, 64])
def test_the_best_of_many_are_found_among_groups_also_with_ties(values, size, count):
    scores = np.random.default_rng(size).integers(-values, values, size).astype(np.float32)
    scores[-1] = scores.max() + 1  # the last group is not a whole one
    expected = np.lexsort((np.arange(size), -scores))[:count]
    assert sorted(_best(scores, count).tolist()) == sorted(expected.tolist())


def test_lengths_are_none_where_there_is_no_direction():
    rows = np.array([[3, 4], [0, 0], [np.nan, 1], [np.inf, 1], [1e-30, 0]], np.float32)
    lengths = row_lengths(rows)
    assert lengths[0] == pytest.approx(5)
    assert np.isnan(lengths[1:]).all()


def segment(*embeddings):
    ids = np.array(embeddings, np.int64)
    matrix = np.stack([ids, -ids], axis=1).astype(np.int8)
    return Segment(ids, Coded(matrix, ids.astype(np.float32)))


def range_segment(start, end):
    return segment(*range(start, end))


def used(*embeddings):
    return np.array(sorted(embeddings), np.int64)


def ids_of(segments):
    return [one.embeddings.tolist() for one in segments]


def test_small_segments_become_one_and_full_ones_are_left_alone():
    full = range_segment(0, SEGMENT_ROWS)
    small = [segment(20_000), segment(20_001, 20_002), segment(20_003)]
    everything = np.arange(30_000)
    result = arranged([full, *small], everything)
    assert result[0] is full
    assert ids_of(result[1:]) == [[20_000, 20_001, 20_002, 20_003]]
    assert result[1].coded.scales.tolist() == [20_000, 20_001, 20_002, 20_003]
    assert len(arranged([range_segment(0, SEGMENT_ROWS - 1), *small], everything)) == 2


def test_a_segment_is_copied_only_when_a_quarter_of_it_is_not_in_use():
    whole = segment(1, 2, 3, 4, 5, 6, 7, 8)
    assert arranged([whole], used(1, 2, 3, 4, 5, 6))[0] is whole
    assert ids_of(arranged([whole], used(1, 2, 3, 4, 5))) == [[1, 2, 3, 4, 5]]
    assert arranged([whole], used()) == ()


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, unique=True), max_size=5),
    st.lists(st.integers(0, 60), max_size=30),
)
def test_every_embedding_is_found_where_it_is(parts, wanted):
    seen = set()
    parts = [[one for one in part if one not in seen and not seen.add(one)] for part in parts]
    segments = [segment(*part) for part in parts if part]
    flat = [one for part in parts for one in part]
    rows, present = find_rows(segments, np.array(wanted, np.int64))
    assert present.tolist() == [one in flat for one in wanted]
    places = [flat[row] for row, there in zip(rows, present, strict=True) if there]
    assert places == [one for one in wanted if one in flat]
    assert contained(np.array(wanted, np.int64), used(*flat)).tolist() == present.tolist()
