"""Decoding, ordering, checking and normalising of raw embeddings."""

import base64
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ErrorKind
from fakes.each import each
from providers.provider_interface import ItemError
from providers.remote.answers import collect, decode, in_order, normalise

FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20)


def base64_of(values):
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode()


@given(FLOATS)
def test_both_encodings_decode_to_the_same_vector(values):
    np.testing.assert_array_equal(decode(values), decode(base64_of(values)))


@given(FLOATS)
def test_a_vector_leaves_with_length_one_or_not_at_all(values):
    unit = normalise(array("f", values))
    if unit is None:
        assert not any(values)
    else:
        assert unit.typecode == "f"
        assert np.linalg.norm(unit) == pytest.approx(1.0, abs=1e-5)


@each(
    "raw",
    [None, "not base64!", "QUJD", {"values": [1.0]}, [1.0, None], [True, False], [1.0, "2"], 7],
)
def test_what_is_no_embedding_is_told_apart(raw):
    assert decode(raw) is None


def test_tiny_and_huge_numbers_keep_their_direction():
    for values in ([3e-30, 4e-30], [3e30, 4e30]):
        unit = normalise(array("f", values))
        np.testing.assert_allclose(unit, [0.6, 0.8], rtol=1e-5)


@given(st.permutations(range(6)))
def test_indices_put_reordered_rows_in_order(order):
    assert in_order([(index, f"row {index}") for index in order], 6) == [
        f"row {index}" for index in range(6)
    ]


def test_rows_without_indices_or_with_one_index_for_all_keep_their_order():
    assert in_order([(None, "a"), (None, "b")], 2) == ["a", "b"]
    assert in_order([(0, "a"), (0, "b")], 2) == ["a", "b"]


def test_a_missing_row_is_known_by_the_indices_of_the_others():
    assert in_order([(0, "a"), (2, "c")], 3) == ["a", None, "c"]


def test_short_rows_without_indices_cannot_be_attributed_to_any_text():
    assert in_order([(None, "a"), (None, "b")], 3) == [None, None, None]


@pytest.mark.parametrize("indices", [(5, 0), (-1, 0)])
def test_an_index_out_of_range_is_not_believed(indices):
    assert in_order([(index, "x") for index in indices], 2) == ["x", "x"]


@each(
    ("spoilt", "says"),
    [
        ([0.0, 0.0, 0.0], "zero or not finite"),
        ([float("nan"), 1.0, 1.0], "zero or not finite"),
        ([float("inf"), 1.0, 1.0], "zero or not finite"),
        ([1.0, 1.0], "2 dimensions instead of 3"),
        ([1.0, 1.0, 1.0, 1.0], "4 dimensions instead of 3"),
        ([], "0 dimensions instead of 3"),
        (None, "no vector"),
    ],
)
def test_a_spoilt_vector_is_an_error_of_its_text_alone(spoilt, says):
    rows = [(0, [1.0, 0.0, 0.0]), (1, spoilt), (2, [0.0, 2.0, 0.0])]
    first, middle, last = collect(rows, 3, None)
    assert isinstance(middle, ItemError)
    assert middle.kind is ErrorKind.PROVIDER_BAD_RESPONSE
    assert says in middle.message
    np.testing.assert_allclose(first, [1, 0, 0])
    np.testing.assert_allclose(last, [0, 1, 0])


@given(FLOATS)
def test_a_vector_alone_is_what_it_is_among_others(values):
    (alone,) = collect([(0, values)], 1, len(values))
    assert collect([(0, values), (1, values)], 2, len(values))[1] == alone


def test_a_configured_number_of_dimensions_is_insisted_on():
    (item,) = collect([(0, [1.0, 2.0])], 1, 3)
    assert isinstance(item, ItemError)


def test_an_answer_without_any_vector_is_an_error_for_every_text():
    assert all(isinstance(item, ItemError) for item in collect([], 3, None))
