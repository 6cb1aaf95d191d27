"""Suggested models: each consists of the files that were checked, and no others are taken for them."""

import hashlib
import json
import re

import msgspec
import pytest

from fakes.hub import FakeHub
from providers.local import models
from providers.local.model import prompts_for
from providers.local.models import SUGGESTED, SUGGESTIONS, locate, obtain_suggested
from providers.local.models.cache import listed_models, remove
from providers.local.models.references import LLAMA, ONNX, ConfiguredModels, ModelDamagedError

FILES = {
    "onnx/model_quint8_avx2.onnx": b"\x08" + bytes(99_999),
    "tokenizer.json": b"{" + b" " * 50_000 + b"}",
    "config.json": json.dumps({"max_position_embeddings": 512}).encode(),
    "1_Pooling/config.json": json.dumps({"pooling_mode_cls_token": True}).encode(),
}


def digest(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("one", SUGGESTIONS, ids=lambda one: one.name)
def test_each_is_files_of_known_hashes_at_the_hub(one):
    assert one.repository.file.endswith((".onnx", ".gguf"))
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in (one.sha256, *one.beside.values()))
    assert one.bytes > 10_000_000
    assert one.licence


def test_the_first_one_is_small_pinned_to_a_commit_and_wants_no_words_before_a_text():
    assert SUGGESTIONS[0] is SUGGESTED
    assert SUGGESTED.bytes < 150_000_000
    assert SUGGESTED.engine is ONNX
    assert SUGGESTED.beside.keys() == {"tokenizer.json", "config.json", "1_Pooling/config.json"}
    assert re.fullmatch("[0-9a-f]{40}", SUGGESTED.repository.revision)
    assert prompts_for(SUGGESTED.name, SUGGESTED.repository.file).apply("query", "q") == "q"


@pytest.fixture
def small(monkeypatch):
    """The suggested model as if these were its files."""
    model, *beside = FILES
    small = msgspec.structs.replace(
        SUGGESTED,
        bytes=sum(map(len, FILES.values())),
        sha256=digest(FILES[model]),
        beside={name: digest(FILES[name]) for name in beside},
    )
    monkeypatch.setattr(models, "SUGGESTED", small)
    return small


@pytest.fixture
def hub(small):
    repository = small.repository.repository
    with FakeHub({f"{repository}/{name}": data for name, data in FILES.items()}) as hub:
        yield hub


@pytest.fixture
def fetch(small, hub, tmp_path):
    async def fetch(progress=None):
        configured = ConfiguredModels(
            reference=small.reference, cache_dir=tmp_path, environment=hub.environment
        )
        return await obtain_suggested(small, configured, progress)

    return fetch


@pytest.mark.anyio
async def test_it_is_downloaded_with_everything_it_needs_and_then_known(small, fetch, tmp_path):
    progress = []
    path = await fetch(lambda done, total: progress.append((done, total)))
    assert path == small.path(tmp_path)
    assert small.is_here(tmp_path)
    assert models.downloaded_suggestion(tmp_path) is small
    assert locate(small.reference, tmp_path) == path
    for name, data in FILES.items():
        assert (path.parent.parent / name).read_bytes() == data
    assert progress == sorted(progress)
    assert progress[-1] == (small.bytes, small.bytes)


@pytest.mark.anyio
async def test_a_download_that_was_cut_off_goes_on_with_the_file_where_it_was(
    small, fetch, hub, tmp_path
):
    hub.misbehave("status", times=None, status=403)
    with pytest.raises(Exception, match="denies"):
        await fetch()
    hub.heal()
    hub.misbehave("drop", after=30_000)
    await fetch()
    assert small.is_here(tmp_path)
    assert hub.sent() < 1.2 * small.bytes


@pytest.mark.anyio
async def test_another_file_from_the_host_is_not_used(small, fetch, hub, tmp_path):
    name = f"{small.repository.repository}/tokenizer.json"
    hub.files[name] = hub.files[name] + b"\n"
    with pytest.raises(ModelDamagedError, match=r"tokenizer\.json is not the one"):
        await fetch()
    assert models.downloaded_suggestion(tmp_path) is None


@pytest.mark.anyio
async def test_it_is_listed_as_one_model_and_removed_with_everything(small, fetch, hub, tmp_path):
    await fetch()
    configured = ConfiguredModels(
        reference="hf:org/other/m.gguf", cache_dir=tmp_path, environment=hub.environment
    )
    (_, one) = listed_models(configured)
    assert (one.reference, one.complete) == (small.reference, True)
    assert remove(small.reference, tmp_path) == small.bytes
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def put(one, cache, files):
    root = one.path(cache).parent.parent
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def test_files_put_there_by_hand_are_read_once_and_then_known(small, tmp_path):
    put(small, tmp_path, FILES)
    assert not small.is_here(tmp_path)
    assert small.confirm(tmp_path) is None
    assert small.is_here(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_another_file_put_there_by_hand_is_not_taken_for_it(small, tmp_path, name):
    put(small, tmp_path, FILES | {name: FILES[name] + b" "})
    wrong = small.confirm(tmp_path)
    assert str(wrong).endswith(name)
    assert not small.is_here(tmp_path)
    assert wrong.exists()


def test_nothing_is_here_before_anything_was_downloaded(small, tmp_path):
    assert not small.is_here(tmp_path)
    assert small.confirm(tmp_path) is not None
    assert models.downloaded_suggestion(tmp_path) is None


def test_what_was_suggested_before_counts_where_llama_cpp_is_installed(tmp_path, monkeypatch):
    (earlier,) = models._EARLIER
    data = b"GGUF" + bytes(1000)
    earlier = msgspec.structs.replace(earlier, sha256=digest(data))
    monkeypatch.setattr(models, "_EARLIER", (earlier,))
    path = earlier.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert earlier.confirm(tmp_path) is None
    expected = earlier if LLAMA.missing is None else None
    assert models.downloaded_suggestion(tmp_path) is expected
