"""The worker process by itself: its pipe, its end, and its remains."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from config.runtime.worker import FrameReader, frame
from endurance.processes import has_ended
from fakes.local_models import order
from fakes.onnx_models import write_embedder
from providers.local.embedder import worker_variables
from providers.local.worker import (
    Cancel,
    Computed,
    Embed,
    Failed,
    Opened,
    Ping,
    Pong,
    Refused,
    Reply,
)

COMMAND = [sys.executable, "-P", "-m", "providers.local.worker"]
PARENT = """
import os, subprocess, sys
worker = subprocess.Popen([sys.executable, "-P", "-m", "providers.local.worker"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(worker.pid, flush=True)
sys.stdin.read()
"""


class Dialogue:
    def __init__(self, **environment):
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=worker_variables(os.environ) | environment,
        )
        self._reader = FrameReader(Reply)
        self._replies = []

    def say(self, *messages):
        self.process.stdin.write(b"".join(map(frame, messages)))
        self.process.stdin.flush()

    def receive(self):
        while not self._replies:
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            assert piece, self.process.stderr.read().decode()
            self._replies += self._reader.feed(piece)
        return self._replies.pop(0)

    def vectors(self, lane, *texts, number=1):
        """Returns the vectors of all texts, in order."""
        self.say(Embed(number, lane, list(texts)))
        found = {}
        while len(found) < len(texts):
            reply = self.receive()
            if isinstance(reply, Computed):
                rows = np.frombuffer(reply.vectors, "<f4").reshape(len(reply.positions), -1)
                found.update(zip(reply.positions, rows, strict=True))
        return np.stack([found[at] for at in range(len(texts))])


@pytest.fixture
def talk():
    opened = []

    def start(**environment):
        opened.append(Dialogue(**environment))
        return opened[-1]

    yield start
    for dialogue in opened:
        with dialogue.process as process:
            process.kill()


@pytest.fixture
def worker(talk, model):
    dialogue = talk()
    dialogue.say(order(model))
    assert dialogue.receive() == Opened(32)
    return dialogue


def test_vectors_are_of_length_one_and_the_same_in_both_lanes_and_any_company(worker):
    texts = ["one", "two words", "x " * 100]
    together = worker.vectors("document", *texts)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for number, text in enumerate(texts, start=2):
        alone = worker.vectors("query", text, number=number)[0]
        assert float(alone @ together[number - 2]) > 0.9999


def test_fewer_dimensions_are_the_leading_ones_normalised_again(talk, worker, model):
    whole = worker.vectors("query", "some text")[0]
    narrow = talk()
    narrow.say(order(model, dimensions=8))
    assert narrow.receive() == Opened(8)
    cut = narrow.vectors("query", "some text")[0]
    assert np.allclose(cut, whole[:8] / np.linalg.norm(whole[:8]), atol=1e-6)


def test_a_text_beyond_the_limit_is_cut_and_counted(talk, model):
    short = talk()
    short.say(order(model, 16))
    short.receive()
    for number, (text, tokens) in enumerate([("x" * 500, 16), ("x", 3)], start=1):
        short.say(Embed(number, "document", [text]))
        reply = short.receive()
        assert (reply.cut, reply.tokens) == (number == 1, tokens)
    whole, beginning = short.vectors("document", "x" * 500, "x" * 14, number=3)
    assert np.allclose(whole, beginning, atol=1e-5)


def test_it_answers_a_ping_and_a_query_while_documents_are_computed(worker):
    documents = ["x " * 400] * 2_000
    worker.say(Embed(1, "document", documents), Embed(2, "query", ["where"]), Ping())
    seen = []
    while not (any(isinstance(each, Pong) for each in seen) and any_vector(seen, 2)):
        seen.append(worker.receive())
    done = sum(len(each.positions) for each in seen if isinstance(each, Computed))
    assert done < len(documents)


def any_vector(replies, number):
    return any(isinstance(each, Computed) and each.number == number for each in replies)


def test_what_is_cancelled_stops_between_batches(worker):
    documents = ["x " * 400] * 2_000
    worker.say(Embed(1, "document", documents))
    worker.receive()
    worker.say(Cancel(1), Embed(2, "document", ["x"]))
    seen = []
    while not any_vector(seen, 2):
        seen.append(worker.receive())
    assert sum(len(one.positions) for one in seen if isinstance(one, Computed)) < len(documents)


def test_blank_and_strange_texts_do_no_harm(worker):
    texts = ["", "\0", "🙂" * 50, "[CLS] [SEP]", "a" * 10_000, "\ufffd"]
    assert worker.vectors("document", *texts).shape == (6, 32)


def test_what_libraries_print_never_tears_a_frame(talk, model, tmp_path):
    site = tmp_path / "noisy"
    site.mkdir()
    noise = "import os, sys\nos.write(1, b'noise' * 100)\nprint('more')\n"
    (site / "numpy.py").write_text(noise + "raise ImportError('no numpy')\n", encoding="utf-8")
    for name in ("llama_cpp", "onnxruntime"):
        (site / f"{name}.py").write_text(noise, encoding="utf-8")
    noisy = talk(PYTHONPATH=str(site))
    noisy.say(order(model))
    out, err = noisy.process.communicate(timeout=60)
    assert out == b""
    assert b"noise" in err


def test_a_library_that_is_missing_is_said_to_be(talk, model, tmp_path):
    for name in ("llama_cpp", "onnxruntime"):
        missing = tmp_path / f"{name}.py"
        missing.write_text("raise ImportError('no such thing')", encoding="utf-8")
    without = talk(PYTHONPATH=str(tmp_path))
    without.say(order(model))
    assert "no such thing" in without.receive().message
    assert without.process.wait(60) == 0


def test_a_truncated_model_is_refused_in_the_engines_own_words(talk, model):
    model.write_bytes(model.read_bytes()[:-5000])
    broken = talk()
    broken.say(order(model))
    reply = broken.receive()
    assert isinstance(reply, Refused)
    assert any(word in reply.message for word in ("tensor", "file", "Protobuf"))


def test_a_text_that_the_engine_refuses_is_reported_and_the_worker_lives(talk, tmp_path):
    """This model has fewer positions than it declares."""
    path = write_embedder(tmp_path / "tiny/model.onnx", context=80)
    worker = talk()
    worker.say(order(path))
    worker.receive()
    worker.say(Embed(1, "document", ["x" * 100]))
    reply = worker.receive()
    assert isinstance(reply, Failed)
    assert "refused" in reply.message
    assert worker.vectors("document", "abc", number=2).shape == (1, 32)


def test_a_model_that_reads_no_texts_is_refused(talk, tmp_path):
    path = write_embedder(tmp_path / "tiny/model.onnx")
    graph = onnx.load(str(path))
    for value in graph.graph.input:
        value.name = f"image_{value.name}"
    for node in graph.graph.node:
        node.input[:] = [f"image_{name}" if name == "input_ids" else name for name in node.input]
    onnx.save(graph, str(path))
    worker = talk()
    worker.say(order(path))
    assert "not texts" in worker.receive().message


@pytest.mark.promises_seconds
def test_the_end_of_the_pipe_ends_it_in_the_middle_of_its_work(worker):
    worker.say(Embed(1, "document", ["x " * 400] * 500))
    worker.receive()
    started = time.monotonic()
    worker.process.stdin.close()
    assert worker.process.wait(60) == 0
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("stopped", [False, True])
def test_it_ends_with_its_parent_even_when_it_is_stopped(stopped):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=worker_variables(os.environ),
    ) as parent:
        worker = int(parent.stdout.readline())
        wait_for(lambda: expendable(worker))
        if stopped:
            os.kill(worker, signal.SIGSTOP)
        parent.kill()
        parent.wait(60)
    wait_for(lambda: has_ended(worker))


def test_it_leaves_no_dump_of_the_notes_and_dies_before_the_gateway_does(worker):
    assert expendable(worker.process.pid)
    limits = Path(f"/proc/{worker.process.pid}/limits").read_text(encoding="ascii")
    (line,) = (line for line in limits.splitlines() if line.startswith("Max core"))
    assert line.split()[4:6] == ["0", "0"]


def test_it_gets_no_credential_and_waits_without_spinning():
    variables = worker_variables(
        {"OPENAI_API_KEY": "sk", "HF_TOKEN": "hf", "PATH": "/bin", "LLAMA_CPP_LIB_PATH": "/x"}
    )
    assert {"PATH": "/bin", "LLAMA_CPP_LIB_PATH": "/x"}.items() < variables.items()
    assert variables["OMP_WAIT_POLICY"] == "passive"
    assert not {"OPENAI_API_KEY", "HF_TOKEN"} & set(variables)


def wait_for(condition):
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def expendable(pid):
    return Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii").strip() == "500"
