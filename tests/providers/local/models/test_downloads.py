"""A model from the hub or from an address: whole, checked, resumed, and only once."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess

import anyio
import pytest

from fakes.hub import FakeHub
from providers.local.models import locate, obtain
from providers.local.models.cache import place_of
from providers.local.models.references import (
    ModelDamagedError,
    ModelFormatError,
    ModelHostError,
    ModelNotFoundError,
    ModelOfflineError,
    ModelStorageError,
    parse_reference,
)

pytestmark = pytest.mark.anyio

REFERENCE = "hf:org/repo/m.gguf"


def part_of(cache, reference=REFERENCE):
    return place_of(parse_reference(reference), cache).part


async def stop_after(fetch, size, **options):
    """Stops a download when that many bytes are there."""
    with anyio.CancelScope() as scope:
        await fetch(on_progress=lambda done, _: scope.cancel() if done >= size else None, **options)
    assert scope.cancelled_caught


async def test_a_model_of_the_hub_is_downloaded_whole_and_noted(fetch, hub, cache, data, recorded):
    path = await fetch()
    assert path == cache / "hf/org/repo/main/m.gguf"
    assert path.read_bytes() == data
    assert recorded() == {
        "reference": REFERENCE,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "validator": hashlib.sha256(data).hexdigest(),
    }
    assert sorted(file.name for file in path.parent.iterdir()) == ["m.gguf", "m.gguf.json"]
    hub.wait_until_sent(len(data))
    assert hub.sent() == len(data)


async def test_what_is_there_is_not_asked_for_again(fetch, hub, cache):
    path = await fetch()
    asked = len(hub.requests)
    assert await fetch(HF_HUB_OFFLINE="1") == path
    assert locate(REFERENCE, cache) == path
    assert len(hub.requests) == asked


async def test_a_revision_is_asked_for_and_kept_apart(fetch, hub):
    path = await fetch("hf:org/repo/m.gguf#refs/pr/1")
    assert path.parent.name == "refs%2Fpr%2F1"
    assert hub.requests[0].path == "/org/repo/resolve/refs%2Fpr%2F1/m.gguf"


async def test_an_address_is_downloaded_too(fetch, hub, cache, data):
    hub.metadata = False
    address = f"{hub.origin}/org/repo/resolve/main/m.gguf?key=hush"
    path = await fetch(address)
    assert path.read_bytes() == data
    assert locate(address, cache) == path
    assert "hush" not in path.with_name("m.gguf.json").read_text(encoding="utf-8")


async def test_progress_begins_with_what_is_there_and_ends_with_everything(fetch, data):
    progress = []
    await stop_after(fetch, 300_000)
    await fetch(on_progress=lambda done, total: progress.append((done, total)))
    assert progress[0][0] >= 200_000
    assert progress == sorted(progress)
    assert progress[-1] == (len(data), len(data))
    assert {total for _, total in progress} == {len(data)}


@pytest.mark.parametrize("redirects", [True, False])
async def test_a_cancelled_download_is_continued(fetch, hub, cache, data, redirects):
    hub.redirects = redirects
    await stop_after(fetch, 400_000)
    assert locate(REFERENCE, cache) is None
    kept = part_of(cache).stat().st_size
    assert (await fetch()).read_bytes() == data
    last = hub.bodies()[-1]
    assert (last.status, last.headers["range"]) == (206, f"bytes={kept - 1}-")
    hub.wait_until(lambda _: last.sent >= len(data) - kept + 1)
    assert last.sent == len(data) - kept + 1


async def test_a_dropped_connection_is_continued_within_one_call(fetch, hub, data):
    hub.misbehave("drop", after=300_000, times=3)
    assert (await fetch()).read_bytes() == data
    assert hub.sent() < 1.3 * len(data)


async def test_a_host_that_always_drops_is_given_up_only_without_progress(fetch, hub, data):
    hub.misbehave("drop", after=100_000, times=None)
    assert (await fetch()).read_bytes() == data


async def test_a_part_that_is_whole_but_was_not_published_costs_one_byte(fetch, hub, cache, data):
    await stop_after(fetch, 400_000)
    part_of(cache).write_bytes(data)
    assert (await fetch()).read_bytes() == data
    hub.wait_until(lambda _: hub.bodies()[-1].sent >= 1)
    assert hub.bodies()[-1].sent == 1


async def test_a_part_of_another_version_is_thrown_away(fetch, hub, cache):
    await stop_after(fetch, 400_000)
    newer = b"GGUF" + bytes(700_000)
    hub.files["org/repo/m.gguf"] = newer
    assert (await fetch()).read_bytes() == newer


async def test_a_part_longer_than_the_file_is_thrown_away(fetch, hub, cache, data):
    await stop_after(fetch, 400_000)
    part_of(cache).write_bytes(data + data)
    assert (await fetch()).read_bytes() == data
    assert 416 in [seen.status for seen in hub.requests]


async def test_a_host_without_ranges_starts_again(fetch, hub, data):
    await stop_after(fetch, 400_000)
    hub.misbehave("no-ranges")
    assert (await fetch()).read_bytes() == data


async def test_without_anything_to_recognise_the_file_by_it_starts_again(fetch, hub, data):
    hub.metadata = hub.etags = False
    await stop_after(fetch, 400_000)
    assert (await fetch()).read_bytes() == data
    assert "range" not in hub.bodies()[-1].headers


async def test_a_part_that_was_spoilt_on_the_disk_is_noticed_and_fetched_anew(
    fetch, hub, cache, data
):
    await stop_after(fetch, 400_000)
    with part_of(cache).open("r+b") as part:
        part.seek(1000)
        part.write(b"spoilt")
    assert (await fetch()).read_bytes() == data


async def test_a_body_with_another_hash_is_refused_and_not_kept(fetch, hub, cache):
    hub.misbehave("wrong-bytes")
    with pytest.raises(ModelDamagedError, match="SHA-256") as caught:
        await fetch()
    assert caught.value.remedy
    assert locate(REFERENCE, cache) is None
    assert not part_of(cache).exists()


async def test_a_body_that_is_always_too_short_is_given_up(fetch, hub, cache):
    hub.misbehave("wrong-size", after=200_000, times=None)
    with pytest.raises(Exception, match=r"cannot be reached|sent 200,000 of 1,000,000|only a part"):
        await fetch()
    assert locate(REFERENCE, cache) is None


async def test_a_web_page_is_no_model(fetch, hub):
    hub.misbehave("html")
    with pytest.raises(ModelFormatError, match="web page"):
        await fetch()


async def test_another_format_is_refused_after_its_first_bytes(fetch, hub, cache):
    hub.files["org/repo/m.gguf"] = b"PK\x03\x04" + bytes(5_000_000)
    hub.bytes_per_s = 2_000_000
    with pytest.raises(ModelFormatError, match=r"begins with b'PK"):
        await fetch()
    assert hub.sent() < 1_000_000
    assert [one for one in cache.rglob("*") if one.is_file()] == []


async def test_an_empty_file_is_no_model_and_is_not_kept(fetch, hub, cache, data):
    hub.files["org/repo/m.gguf"] = b""
    with pytest.raises(ModelFormatError, match=r"m\.gguf is no GGUF file; it is empty"):
        await fetch()
    assert [one for one in cache.rglob("*") if one.is_file()] == []
    hub.files["org/repo/m.gguf"] = data
    assert (await fetch()).read_bytes() == data


async def test_a_host_that_sends_without_end_is_left_at_the_size_that_it_announced(
    fetch, hub, cache, data
):
    hub.misbehave("endless", times=None)
    with pytest.raises(ModelDamagedError, match=f"more than the {len(data):,} bytes"):
        await fetch()
    assert [one for one in cache.rglob("*") if one.is_file()] == []
    hub.heal()
    await stop_after(fetch, 300_000)
    hub.misbehave("endless", times=None)
    with pytest.raises(ModelDamagedError, match="more than"):
        await fetch()  # also where a part was there
    assert [one for one in cache.rglob("*") if one.is_file()] == []
    hub.heal()
    assert (await fetch()).read_bytes() == data


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
async def test_a_model_without_an_announced_size_leaves_room_on_the_disk_and_no_part(
    hub, cache, tmp_path
):
    hub.misbehave("endless", times=None)
    hub.metadata = hub.redirects = False
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", cache], check=True)
    try:
        free = []
        with pytest.raises(ModelStorageError, match="of unknown size") as caught:
            await obtain(
                f"{hub.origin}/org/repo/resolve/main/m.gguf", cache, environment={},
                on_progress=lambda _done, _size: free.append(shutil.disk_usage(cache).free),
            )  # fmt: skip
        assert "modelCacheDir" in caught.value.remedy
        assert min(free) > 48 << 20
        assert [one for one in cache.rglob("*") if one.is_file()] == []
    finally:
        subprocess.run(["umount", "--lazy", cache], check=True)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_what_is_downloaded_is_for_this_user_alone_whatever_the_umask(fetch, cache, umask):
    before = os.umask(umask)
    try:
        await stop_after(fetch, 300_000)
        part = part_of(cache)
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        part.chmod(0o644)  # as earlier releases left it
        await fetch()
    finally:
        os.umask(before)
    files = [one for one in cache.rglob("*") if one.is_file()]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {"x_linked_size": "9" * 5_000}),
        (206, {"content_range": f"bytes {'9' * 5_000}-1/2"}),
        (206, {"content_range": f"bytes 0-1/{'9' * 5_000}"}),
    ],
)
async def test_a_size_that_no_file_has_is_a_plain_error(fetch, hub, cache, status, headers):
    hub.metadata = hub.redirects = False
    hub.misbehave("status", times=None, status=status, **headers)
    with pytest.raises(ModelHostError, match="a size of 5,000 digits"):
        await fetch()
    assert not part_of(cache).exists()


async def test_offline_nothing_is_asked_and_the_place_for_the_file_is_named(fetch, hub, cache):
    with pytest.raises(ModelOfflineError) as caught:
        await fetch(HF_HUB_OFFLINE="yes")
    assert str(cache / "hf/org/repo/main/m.gguf") in caught.value.remedy
    assert hub.requests == []


async def test_a_disk_without_room_is_noticed_before_the_first_byte(fetch, hub, cache):
    hub.redirects = False
    hub.files["org/repo/m.gguf"] = Enormous(b"GGUF")
    with pytest.raises(ModelStorageError, match="MB are free") as caught:
        await fetch()
    assert "modelCacheDir" in caught.value.remedy
    assert not part_of(cache).exists()


class Enormous(bytes):
    def __len__(self):
        return 1 << 60


async def test_a_cache_directory_that_cannot_be_made_is_named(hub, tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(ModelStorageError, match=str(tmp_path / "file")):
        await obtain(REFERENCE, tmp_path / "file", environment=hub.environment)


async def test_a_model_cut_short_later_is_fetched_again(fetch, cache, data):
    path = await fetch()
    path.write_bytes(data[:1000])
    assert locate(REFERENCE, cache) is None
    assert (await fetch()).read_bytes() == data


async def test_a_file_put_into_its_place_by_hand_counts(fetch, hub, cache):
    place = place_of(parse_reference(REFERENCE), cache)
    place.model.parent.mkdir(parents=True)
    place.model.write_bytes(b"GGUF by hand")
    assert await fetch() == place.model
    assert hub.requests == []


async def test_a_path_is_taken_as_it_is(cache, tmp_path):
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF" + bytes(100))
    assert await obtain(str(own), cache, environment={}) == locate(str(own), cache) == own


async def test_a_path_to_nothing_or_to_another_format_is_an_error(cache, tmp_path):
    missing, other = tmp_path / "missing.gguf", tmp_path / "other.gguf"
    other.write_text("<!doctype html>", encoding="utf-8")
    with pytest.raises(ModelNotFoundError, match=r"missing\.gguf"):
        await obtain(str(missing), cache, environment={})
    with pytest.raises(ModelFormatError, match="doctype"):
        await obtain(str(other), cache, environment={})
    assert locate(str(missing), cache) is None


async def test_a_host_that_falls_silent_is_left_and_asked_again(fetch, hub, data, monkeypatch):
    monkeypatch.setattr("providers.local.models.fetching.TIMEOUT", 0.3)
    hub.misbehave("stall", after=300_000)
    assert (await fetch()).read_bytes() == data


async def test_a_slow_host_is_no_fault(fetch, data):
    with FakeHub({"org/repo/m.gguf": data}, bytes_per_s=2_000_000) as slow:
        assert (await fetch(HF_ENDPOINT=slow.origin)).read_bytes() == data
