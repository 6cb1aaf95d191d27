"""The texts of a worker that dies: none is lost, and none is done twice."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.local.embedder import Job, WorkQueue
from providers.local.worker import Computed, Failed
from providers.provider_interface import ItemError, ProviderUnavailableError

WIDTH = 4


class Worker:
    """Computes the batches that a queue sends, both lanes at once; dies of poison."""

    def __init__(self, queue, seed, *, batch=5):
        self.queue = queue
        self.random = random.Random(seed)
        self.batch = batch
        self.deaths = 0
        self.computed = []

    def work(self):
        for _ in range(10_000):
            if self.queue.is_empty:
                return
            self._one_life()
        raise AssertionError("the work never ended")

    def _one_life(self):
        queues = {"query": [], "document": []}
        busy = {}
        while True:
            while (request := self.queue.next()) is not None:
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
                self.queue.worker_died("SIGABRT")
                return
            self.computed += texts
            vectors = np.ones((len(texts), WIDTH), np.float32).tobytes()
            self.queue.accept(Computed(number, positions, vectors, len(texts), 0))

    def _batches(self, request):
        for start in range(0, len(request.texts), self.batch):
            texts = request.texts[start : start + self.batch]
            yield request.number, list(range(start, start + len(texts))), texts


def is_error(item):
    return isinstance(item, ItemError)


def put(queue, lane, texts):
    job = Job(lane, texts)
    queue.put(job)
    return job


@given(
    st.lists(st.lists(st.sampled_from(["n", "n", "n", "poison"]), max_size=14), max_size=4),
    st.lists(st.sampled_from(["n", "n", "poison"]), max_size=5),
    st.integers(0, 1000),
)
def test_poison_gets_an_error_and_everything_else_its_vector(documents, queries, seed):
    queue = WorkQueue()
    numbered = [
        [f"{word} {at} {place}" for place, word in enumerate(words)]
        for at, words in enumerate(documents)
    ]
    jobs = [put(queue, "document", texts) for texts in numbered if texts]
    jobs += [put(queue, "query", [f"{word} q{at}"]) for at, word in enumerate(queries)]
    worker = Worker(queue, seed)
    worker.work()
    for job in jobs:
        for text, item in zip(job.texts, job.result().items, strict=True):
            assert is_error(item) is text.startswith("poison"), text


def test_a_text_that_kills_workers_kills_two_and_no_other_text_is_computed_in_vain():
    queue = WorkQueue()
    texts = [f"n {place}" for place in range(64)]
    texts[41] = "poison"
    job = put(queue, "document", texts)
    worker = Worker(queue, 1, batch=32)
    worker.work()
    assert [place for place, item in enumerate(job.result().items) if is_error(item)] == [41]
    assert "SIGABRT" in job.result().items[41].message
    assert worker.deaths == 2
    assert len(worker.computed) == len(set(worker.computed)) == 63


def test_a_query_beside_a_text_that_kills_workers_gets_its_vector():
    for seed in range(50):
        queue = WorkQueue()
        poisoned = put(queue, "document", ["poison"])
        queries = [put(queue, "query", [f"query {number}"]) for number in range(4)]
        Worker(queue, seed).work()
        assert is_error(poisoned.result().items[0])
        assert not any(is_error(query.result().items[0]) for query in queries)


def test_a_text_that_killed_a_worker_is_tried_again_when_it_is_asked_for_again():
    queue = WorkQueue()
    put(queue, "document", ["text"])
    for _ in range(2):
        queue.next()
        queue.worker_died("SIGKILL")
    assert queue.is_empty
    again = put(queue, "document", ["text"])
    Worker(queue, 1).work()
    assert not is_error(again.result().items[0])


def test_the_end_of_a_worker_that_was_told_to_end_counts_against_no_text():
    queue = WorkQueue()
    job = put(queue, "document", ["a", "b"])
    for _ in range(5):
        assert queue.next().texts == ["a", "b"]
        queue.worker_ended()
    Worker(queue, 1).work()
    assert not any(map(is_error, job.result().items))


def test_queries_are_sent_before_documents_and_documents_only_a_little_ahead():
    queue = WorkQueue()
    for number in range(6):
        put(queue, "document", [f"d{number}"])
    sent = [queue.next(), queue.next()]
    assert queue.next() is None
    put(queue, "query", ["q"])
    assert queue.next().texts == ["q"]
    queue.accept(Computed(sent[0].number, [0], bytes(4), 1, 0))
    assert queue.next().texts == ["d2"]


def test_a_job_that_is_given_up_leaves_nothing_behind():
    queue = WorkQueue()
    jobs = [put(queue, "document", ["a", "b"]) for _ in range(3)]
    numbers = [queue.next().number, queue.next().number]
    assert queue.withdraw(jobs[0]) == numbers[:1]
    assert queue.withdraw(jobs[2]) == []
    queue.accept(Computed(numbers[0], [0, 1], np.ones(8, np.float32).tobytes(), 2, 0))
    queue.accept(Computed(numbers[1], [0, 1], np.ones(8, np.float32).tobytes(), 2, 0))
    assert not jobs[0].ended.is_set()
    assert jobs[1].ended.is_set()
    assert queue.is_empty


def test_a_text_that_llama_cpp_refuses_gets_its_reason():
    queue = WorkQueue()
    job = put(queue, "document", ["good", "strange"])
    number = queue.next().number
    queue.accept(Failed(number, [1], "the text has no tokens"))
    queue.accept(Computed(number, [0], np.ones(4, np.float32).tobytes(), 1, 0))
    good, strange = job.result().items
    assert good.tolist() == [1, 1, 1, 1]
    assert strange.message == "the text has no tokens."


@pytest.mark.parametrize("values", [[0, 0], [0.0, -0.0]])
def test_a_vector_without_direction_is_an_error(values):
    queue = WorkQueue()
    job = put(queue, "document", ["a"])
    queue.accept(Computed(queue.next().number, [0], np.array(values, np.float32).tobytes(), 1, 0))
    assert "zero or not finite" in job.result().items[0].message


def test_a_model_that_cannot_be_used_ends_everything():
    queue = WorkQueue()
    jobs = [
        put(queue, "document", ["a"]),
        put(queue, "query", ["b"]),
        put(queue, "document", ["c"]),
    ]
    queue.next()
    queue.fail_all(ProviderUnavailableError("no model"))
    assert queue.is_empty
    for job in jobs:
        with pytest.raises(ProviderUnavailableError, match="no model"):
            job.result()


def test_no_texts_are_done_at_once():
    queue = WorkQueue()
    job = put(queue, "document", [])
    assert job.ended.is_set()
    assert queue.is_empty
    assert job.result().items == ()
