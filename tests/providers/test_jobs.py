"""The work list of one run."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embedding.documents import Job
from providers.embedding.sizing import Size, size_of
from providers.interface import InputLimits


def limits(items=4, tokens=10**6):
    return InputLimits(
        max_input_tokens=1000, max_items=items, max_request_tokens=tokens, max_request_bytes=10**9
    )


def job(count=10, **changes):
    return Job([Size(1, 10, 40)] * count, range(count), lambda: limits(**changes))


def drain(work):
    return list(iter(work.take, None))


def test_texts_are_taken_in_order():
    assert drain(job()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_what_is_put_back_comes_next_in_the_sizes_allowed_by_then():
    allowed = {"items": 4}
    work = Job([Size(1, 10, 40)] * 6, range(6), lambda: limits(**allowed))
    refused = work.take()
    allowed["items"] = 3
    work.put_back(refused)
    assert drain(work) == [[0, 1, 2], [3, 4, 5]]


def test_a_split_request_comes_next_as_two_halves():
    work = job()
    work.split(work.take())
    assert drain(work) == [[0, 1], [2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_shrunk_request_halves_all_that_follow():
    work = job()
    work.shrink(work.take())
    assert drain(work) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_only_the_named_positions_are_worked_on():
    work = Job([size_of(text) for text in ("a", " ", "b")], [0, 2], limits)
    assert drain(work) == [[0, 2]]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["done", "put_back", "split", "shrink"]), max_size=60))
def test_no_text_is_lost_or_doubled_whatever_happens(events):
    work, finished = job(25), []
    for event in events:
        positions = work.take()
        if positions is None:
            break
        if event == "done" or len(positions) == 1:
            finished += positions
        else:
            getattr(work, event)(positions)
    finished += [at for positions in drain(work) for at in positions]
    assert sorted(finished) == list(range(25))
