"""Conversations are found at their place in the file, without their secrets, and never shown raw."""

from __future__ import annotations

import pytest

from backends.interface import PathNotAllowedError, ReadRequest, SessionDetails, SyncRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


async def test_turns_are_found_at_their_lines_in_the_file(talking, transcript, hits_of, check):
    one = transcript()
    one.work("a tool that mentions the greenhouse")
    first = one.say("When was the boiler serviced?")
    one.work("noise " * 50)
    one.work("more noise")
    second = one.answer("The boiler was serviced by Hartmann in October.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        (hit,) = await hits_of(backend, "boiler Hartmann")
        assert (hit.path, hit.source) == ("sessions/one.jsonl", "sessions")
        assert (hit.start_line, hit.end_line) == (first, second) == (3, 6)
        assert hit.snippet.startswith("User: When was the boiler serviced?\nAssistant: The boiler")
        assert await hits_of(backend, "greenhouse") == ()
        assert await hits_of(backend, "noise") == ()
    check(talking.index)


async def test_lines_stay_exact_over_many_appends_and_long_turns(
    talking, transcript, hits_of, check
):
    one = transcript()
    places = {}
    async with talking.open() as backend:
        for number in range(60):
            one.work("noise")
            filling = "Filling words about nothing in particular. " * (number % 7) * 9
            places[number] = one.say(f"{filling} The word is unique{number}x.")
            if number % 7 == 0:
                await backend.sync(SyncRequest())
        await backend.sync(SyncRequest())
        for number, line in places.items():
            hits = await hits_of(backend, f"unique{number}x")
            assert any(hit.start_line <= line <= hit.end_line for hit in hits), number
            assert f"unique{number}x" in hits[0].snippet
    check(talking.index)


async def test_a_source_can_be_asked_alone(talking, transcript, paths_of):
    transcript().say("The pump of the boiler leaks.")
    talking.write("memory/a.md", "The boiler has a new membrane.\n")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        assert set(await paths_of(backend, "boiler")) == {"memory/a.md", "sessions/one.jsonl"}
        assert await paths_of(backend, "boiler", sources=("sessions",)) == ["sessions/one.jsonl"]
        assert await paths_of(backend, "boiler", sources=("memory",)) == ["memory/a.md"]


async def test_no_secret_comes_into_the_index(talking, transcript, rows, hits_of):
    one = transcript()
    one.say("Use OPENAI_API_KEY=sk-abcdefghij1234567890 and postgres://app:tr0ub4dor@db/notes.")
    one.answer("-----BEGIN RSA PRIVATE KEY-----\nMIIEverysecret\n-----END RSA PRIVATE KEY-----")
    one.say("And the key: is under the mat.")
    async with talking.open() as backend:
        await backend.sync(SyncRequest())
        (hit, *_) = await hits_of(backend, "mat")
    assert "the key: is under the mat" in hit.snippet
    raw = b"".join(file.read_bytes() for file in talking.root.glob("main.sqlite*"))
    for secret in (b"abcdefghij", b"tr0ub4dor", b"MIIEverysecret", b"miieverysecret"):
        assert secret not in raw


async def test_memory_get_refuses_transcripts_which_are_not_redacted(talking, transcript):
    path = transcript().path
    async with talking.open() as backend:
        for asked in ("sessions/one.jsonl", str(path)):
            with pytest.raises(PathNotAllowedError):
                await backend.read(ReadRequest(path=asked))


async def test_without_the_setting_transcripts_are_no_source(home, transcript, paths_of):
    transcript().say("The boiler leaks.")
    home.configure()
    async with home.open() as backend:
        report = await backend.sync(SyncRequest())
        assert (report.scanned, await paths_of(backend, "boiler")) == (0, [])
        status = await backend.status()
        assert [source.source for source in status.sources] == ["memory"]
        assert status.details.sessions == SessionDetails(enabled=False)
        assert not await backend.transcript_grew("one")


async def test_a_turn_with_nul_and_lone_surrogates_is_found_and_keeps_no_other_out(
    talking, transcript, hits_of
):
    one = transcript()
    one.say("The boiler hums.")
    with one.path.open("a", encoding="utf-8") as file:
        content = '[{"type":"text","text":"The pump \\ud800 leaks \\u0000 at the valve."}]'
        file.write(f'{{"type":"message","message":{{"role":"user","content":{content}}}}}\n')
    one.answer("The door is locked.")
    async with talking.open() as backend:
        assert (await backend.sync(SyncRequest())).complete
        for query in ("boiler", "pump valve", "door"):
            assert await hits_of(backend, query)
        assert (await backend.sync(SyncRequest(force=True))).complete
