"""Which texts share a computation, and what is cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from providers.local.worker.llama import BATCH_TEXTS, BATCH_TOKENS, batches, cut

LENGTHS = st.lists(st.integers(1, 2 * BATCH_TOKENS), max_size=200)


@given(LENGTHS)
def test_every_text_is_in_one_batch_in_order_and_no_batch_is_too_large(lengths):
    packed = list(batches(lengths))
    assert [at for batch in packed for at in batch] == list(range(len(lengths)))
    for batch in packed:
        assert 1 <= len(batch) <= BATCH_TEXTS
        assert len(batch) == 1 or sum(lengths[at] for at in batch) <= BATCH_TOKENS


@given(LENGTHS)
def test_two_neighbouring_batches_would_not_have_fitted_into_one(lengths):
    packed = list(batches(lengths))
    for batch, following in pairwise(packed):
        joined = sum(lengths[at] for at in batch) + lengths[following[0]]
        assert joined > BATCH_TOKENS or len(batch) == BATCH_TEXTS


def test_a_text_that_is_cut_keeps_the_token_that_closes_it():
    assert cut([1, 2, 3, 4, 9], 3, closing=True) == [1, 2, 9]
    assert cut([1, 2, 3, 4, 5], 3, closing=False) == [1, 2, 3]
    assert cut([1, 2, 9], 3, closing=True) == [1, 2, 9]
