"""What becomes of the texts of a worker that dies: none is lost, and none is done twice."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.errors import ProviderUnavailableError
from providers.interface import ItemError
from providers.local.protocol import Computed, Failed
from providers.local.supervisor import Desk, Job

WIDTH = 4


class Worker:
    """Computes what a desk sends, in batches, each lane beside the other; dies of poison."""

    def __init__(self, desk, seed, *, batch=5):
        self.desk = desk
        self.random = random.Random(seed)
        self.batch = batch
        self.deaths = 0
        self.computed = []

    def work(self):
        for _ in range(10_000):
            if self.desk.is_empty:
                return
            self._one_life()
        raise AssertionError("the work never ended")

    def _one_life(self):
        queues = {"query": [], "document": []}
        busy = {}
        while True:
            while (request := self.desk.next()) is not None:
                queues[request.lane] += self._batches(request)
            ready = [lane for lane in queues if lane in busy or queues[lane]]
            if not ready:
                return
            lane = self.random.choice(ready)
            if lane not in busy:
                busy[lane] = queues[lane].pop(0)
                continue
            number, positions, texts = busy.pop(lane)
            if any(text.startswith("poison") for text in texts):
                self.deaths += 1
                self.desk.worker_died("SIGABRT")
                return
            self.computed += texts
            vectors = np.ones((len(texts), WIDTH), np.float32).tobytes()
            self.desk.accept(Computed(number, positions, vectors, len(texts), 0))

    def _batches(self, request):
        for start in range(0, len(request.texts), self.batch):
            texts = request.texts[start : start + self.batch]
            yield request.number, list(range(start, start + len(texts))), texts


def is_error(item):
    return isinstance(item, ItemError)


def put(desk, lane, texts):
    job = Job(lane, texts)
    desk.put(job)
    return job


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["n", "n", "n", "poison"]), max_size=14), max_size=4),
    st.lists(st.sampled_from(["n", "n", "poison"]), max_size=5),
    st.integers(0, 1000),
)
def test_poison_gets_an_error_and_everything_else_its_vector(documents, queries, seed):
    desk = Desk()
    numbered = [
        [f"{word} {at} {place}" for place, word in enumerate(words)]
        for at, words in enumerate(documents)
    ]
    jobs = [put(desk, "document", texts) for texts in numbered if texts]
    jobs += [put(desk, "query", [f"{word} q{at}"]) for at, word in enumerate(queries)]
    worker = Worker(desk, seed)
    worker.work()
    for job in jobs:
        for text, item in zip(job.texts, job.result().items, strict=True):
            assert is_error(item) is text.startswith("poison"), text


def test_a_text_that_kills_workers_kills_two_and_no_other_text_is_computed_in_vain():
    desk = Desk()
    texts = [f"n {place}" for place in range(64)]
    texts[41] = "poison"
    job = put(desk, "document", texts)
    worker = Worker(desk, 1, batch=32)
    worker.work()
    assert [place for place, item in enumerate(job.result().items) if is_error(item)] == [41]
    assert "SIGABRT" in job.result().items[41].message
    assert worker.deaths == 2
    assert len(worker.computed) == len(set(worker.computed)) == 63


def test_a_query_beside_a_text_that_kills_workers_gets_its_vector():
    for seed in range(50):
        desk = Desk()
        poisoned = put(desk, "document", ["poison"])
        queries = [put(desk, "query", [f"query {number}"]) for number in range(4)]
        Worker(desk, seed).work()
        assert is_error(poisoned.result().items[0])
        assert not any(is_error(query.result().items[0]) for query in queries)


def test_a_text_that_killed_a_worker_is_tried_again_when_it_is_asked_for_again():
    desk = Desk()
    put(desk, "document", ["text"])
    for _ in range(2):
        desk.next()
        desk.worker_died("SIGKILL")
    assert desk.is_empty
    again = put(desk, "document", ["text"])
    Worker(desk, 1).work()
    assert not is_error(again.result().items[0])


def test_the_end_of_a_worker_that_was_told_to_end_counts_against_no_text():
    desk = Desk()
    job = put(desk, "document", ["a", "b"])
    for _ in range(5):
        assert desk.next().texts == ["a", "b"]
        desk.worker_ended()
    Worker(desk, 1).work()
    assert not any(map(is_error, job.result().items))


def test_queries_are_sent_before_documents_and_documents_only_a_little_ahead():
    desk = Desk()
    for number in range(6):
        put(desk, "document", [f"d{number}"])
    sent = [desk.next(), desk.next()]
    assert desk.next() is None
    put(desk, "query", ["q"])
    assert desk.next().texts == ["q"]
    desk.accept(Computed(sent[0].number, [0], bytes(4), 1, 0))
    assert desk.next().texts == ["d2"]


def test_a_job_that_is_given_up_leaves_nothing_behind():
    desk = Desk()
    jobs = [put(desk, "document", ["a", "b"]) for _ in range(3)]
    numbers = [desk.next().number, desk.next().number]
    assert desk.withdraw(jobs[0]) == numbers[:1]
    assert desk.withdraw(jobs[2]) == []
    desk.accept(Computed(numbers[0], [0, 1], np.ones(8, np.float32).tobytes(), 2, 0))
    desk.accept(Computed(numbers[1], [0, 1], np.ones(8, np.float32).tobytes(), 2, 0))
    assert not jobs[0].ended.is_set()
    assert jobs[1].ended.is_set()
    assert desk.is_empty


def test_a_text_that_llama_cpp_refuses_gets_its_reason():
    desk = Desk()
    job = put(desk, "document", ["good", "strange"])
    number = desk.next().number
    desk.accept(Failed(number, [1], "the text has no tokens"))
    desk.accept(Computed(number, [0], np.ones(4, np.float32).tobytes(), 1, 0))
    good, strange = job.result().items
    assert good.tolist() == [1, 1, 1, 1]
    assert strange.message == "the text has no tokens."


@pytest.mark.parametrize("values", [[0, 0], [0.0, -0.0]])
def test_a_vector_without_direction_is_an_error(values):
    desk = Desk()
    job = put(desk, "document", ["a"])
    desk.accept(Computed(desk.next().number, [0], np.array(values, np.float32).tobytes(), 1, 0))
    assert "zero or not finite" in job.result().items[0].message


def test_a_model_that_cannot_be_used_ends_everything():
    desk = Desk()
    jobs = [put(desk, "document", ["a"]), put(desk, "query", ["b"]), put(desk, "document", ["c"])]
    desk.next()
    desk.fail_all(ProviderUnavailableError("no model"))
    assert desk.is_empty
    for job in jobs:
        with pytest.raises(ProviderUnavailableError, match="no model"):
            job.result()


def test_no_texts_are_done_at_once():
    desk = Desk()
    job = put(desk, "document", [])
    assert job.ended.is_set()
    assert desk.is_empty
    assert job.result().items == ()
