"""The promises of the port to searches, syncs and embedding."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

from backends.builtin.store.port import (
    START,
    Checkpoint,
    Corpus,
    JobRecord,
    Lookup,
    NoteNames,
    OddEncoding,
    TranscriptPiece,
    TurnRange,
    Word,
)
from backends.files.reading import BROKEN
from backends.ranking.query import Concept
from providers.provider_interface import Fingerprint

ALICE = "---\ntitle: Alice\naliases: [Al, Ally]\ntags: [person, friend]\n---\nAlice keeps bees.\n"


def concepts(*words):
    return [Concept((word,)) for word in words]


def paths(candidates):
    return [candidate.path for candidate in candidates]


def publish_and_fail(store, shelf):
    with store.writer() as writer:
        shelf.put(writer, "memory/b.md", "The pump rattles.\n")
        assert set(writer.files.indexed()) == {"memory/a.md", "memory/b.md"}
        raise KeyError


def test_a_file_is_published_whole_or_not_at_all(store, shelf):
    shelf.write("memory/a.md", "The boiler hums.\n")
    with pytest.raises(KeyError):
        publish_and_fail(store, shelf)
    with store.view() as view:
        assert set(view.files.indexed()) == {"memory/a.md"}
        assert view.keywords.count([Word("pump", is_prefix=False)]) == [0]


def test_a_view_stays_at_the_state_it_began_with(store, shelf):
    shelf.write("memory/a.md", "The boiler hums.\n")
    with store.view() as view:
        before = view.keywords.corpus()
        shelf.write("memory/b.md", "The pump rattles.\n")
        assert view.keywords.corpus() == before
        assert set(view.files.indexed()) == {"memory/a.md"}


def test_an_edit_writes_only_the_chunks_that_it_touches(shelf):
    paragraphs = [f"# Part {number}\n\n{'boiler ' * 300}\n" for number in range(4)]
    written = shelf.write("memory/a.md", "\n".join(paragraphs))
    assert written >= 4
    assert shelf.write("memory/a.md", "\n".join(paragraphs)) == 0
    paragraphs[3] = paragraphs[3].replace("boiler", "pump", 1)
    assert 1 <= shelf.write("memory/a.md", "\n".join(paragraphs)) <= 2


def test_what_a_tick_raises_between_two_chunks_undoes_the_publication(store, shelf):
    text = "\n".join(f"# Part {number}\n\n{'boiler ' * 300}\n" for number in range(4))
    seen = []

    def tick():
        seen.append(1)
        if len(seen) == 3:
            raise InterruptedError

    read, prepared = shelf.read("memory/a.md", text), shelf.prepare("memory/a.md", text)
    with pytest.raises(InterruptedError), store.writer() as writer:
        writer.files.publish(read, "test", prepared, tick=tick)
    with store.view() as view:
        assert view.files.indexed() == {}
        assert view.keywords.corpus() == Corpus(0, (), frozenset())


def test_a_file_goes_with_its_words_and_languages_if_it_is_as_it_was_read(store, shelf):
    shelf.write("memory/a.md", "The boiler hums in the cellar of the house.\n", at=5)
    with store.writer() as writer:
        assert not writer.files.remove("memory", "memory/a.md", read_at_ns=4)
        assert writer.files.remove("memory", "memory/a.md", read_at_ns=5)
        assert not writer.files.remove("memory", "memory/a.md")
    with store.view() as view:
        assert view.keywords.corpus() == Corpus(0, (), frozenset())
        assert view.keywords.count([Word("boiler", is_prefix=False)]) == [0]


def test_new_stamps_leave_content_and_pipeline_as_they_are(store, shelf):
    text = "The boiler hums.\n"
    shelf.write("memory/a.md", text, at=5)
    with store.writer() as writer:
        writer.files.touch(shelf.read("memory/a.md", text, at=9))
    with store.view() as view:
        known = view.files.indexed()["memory/a.md"]
        assert (known.mtime_ns, known.read_at_ns, known.pipeline) == (9, 9, "test")
        assert view.files.holds("memory", "memory/a.md", text.encode(), "test")
        assert not view.files.holds("memory", "memory/a.md", text.encode(), "another")
        assert not view.files.holds("memory", "memory/a.md", b"other", "test")


def test_cards_tell_what_a_search_shows_and_filters_by(store, shelf):
    shelf.write("memory/2026-03-01.md", "The boiler hums.\n")
    shelf.write("memory/alice.md", ALICE)
    with store.view() as view:
        every = {card.path: card for card in view.files.all_cards(with_tags=True)}
        assert every["memory/2026-03-01.md"].note_date == "2026-03-01"
        assert every["memory/alice.md"].tags == ("person", "friend")
        assert {card.chunks for card in every.values()} == {1}
        assert all(not card.tags for card in view.files.all_cards(with_tags=False))
        ids = [card.id for card in every.values()]
        cards = view.files.cards(ids)
        assert {card.path: card.title for card in cards.values()} == {
            "memory/2026-03-01.md": "",
            "memory/alice.md": "Alice",
        }
        assert cards[every["memory/alice.md"].id].tags == ("person", "friend")
        assert view.files.note_dates(ids) == {every["memory/2026-03-01.md"].id: "2026-03-01"}
        assert view.files.cards([]) == view.files.note_dates([]) == {}


def test_notes_are_named_with_the_shortest_path_first(store, shelf):
    shelf.write("memory/deep/alice.md", "Another.\n")
    shelf.write("memory/alice.md", ALICE)
    with store.view() as view:
        assert list(view.files.names()) == [
            NoteNames("memory/alice.md", "Alice", ("Al", "Ally")),
            NoteNames("memory/deep/alice.md", "", ()),
        ]


def test_encodings_other_than_utf_8_are_counted(store, shelf):
    shelf.write("memory/b.md", "b\n", encoding=BROKEN)
    shelf.write("memory/a.md", "a\n", encoding=BROKEN)
    shelf.write("memory/c.md", "c\n")
    with store.view() as view:
        assert list(view.files.odd_encodings()) == [OddEncoding(BROKEN, 2, "memory/a.md")]


def test_an_overview_counts_files_by_day_size_and_language(store, shelf):
    shelf.write(
        "memory/2026-02-08.md", "The boiler hums in the cellar of the house and it is old.\n"
    )
    shelf.write("memory/2026-02-08-b.md", "b\n")
    shelf.write("memory/c.md", "c\n" * 100)
    with store.view() as view:
        found = view.files.overview()
    assert [(one.source, one.day, one.files) for one in found.days] == [
        ("memory", None, 1),
        ("memory", "2026-02-08", 2),
    ]
    assert sum(one.files for one in found.sizes) == 3
    assert [one.from_bytes for one in found.sizes] == sorted(one.from_bytes for one in found.sizes)
    assert [(one.language, one.files) for one in found.languages] == [("english", 3)]


def test_an_overview_of_very_many_days_counts_by_month(store, shelf):
    begin = date(2020, 1, 1)
    for first in range(0, 1001, 50):
        with store.writer() as writer:
            for number in range(first, min(first + 50, 1001)):
                shelf.put(writer, f"memory/{begin + timedelta(days=number)}.md", "a\n")
    with store.view() as view:
        days = view.files.overview().days
    assert (days[0].day, days[0].files, days[-1].day) == ("2020-01", 31, "2022-09")
    assert sum(one.files for one in days) == 1001


def test_words_are_counted_in_chunks_and_prefixes_by_their_most_frequent_word(store, shelf):
    shelf.write("memory/a.md", "kiwi kiwi\n")
    shelf.write("memory/b.md", "kiwi kiwano\n")
    words = [Word("kiwi", is_prefix=False), Word("kiwano", is_prefix=False)]
    words += [Word("kiw", is_prefix=True), Word("kiw", is_prefix=False)]
    with store.view() as view:
        assert view.keywords.count(words) == [2, 1, 2, 0]
        assert view.keywords.count([]) == []


def test_further_words_are_looked_up_until_there_is_enough(store, shelf):
    shelf.write("memory/a.md", "valve boiler\n")
    shelf.write("memory/b.md", "boiler\n")
    tiers = [concepts("valv"), concepts("boiler")]
    with store.view() as view:
        few = view.keywords.matches(Lookup(tiers, most=10, enough=1), None)
        assert paths(few.best(10)[0]) == ["memory/a.md"]
        more = view.keywords.matches(Lookup(tiers, most=10, enough=2), None)
        assert paths(more.best(10)[0]) == ["memory/a.md", "memory/b.md"]
        (other,) = [one for one in more.best(10)[0] if one.path == "memory/b.md"]
        assert [one.bm25 for one in few.best(10, 0, [other.chunk_id])[1]] == [0.0]
        assert [one.bm25 for one in more.best(1, 0, [other.chunk_id])[1]] == [other.bm25]


def test_files_limit_the_lookup_itself(store, shelf):
    for name in "abc":
        shelf.write(f"memory/{name}.md", "boiler\n")
    with store.view() as view:
        ids = {card.path: card.id for card in view.files.all_cards(with_tags=False)}
        lookup = Lookup([concepts("boiler")], most=1, enough=200)
        only = view.keywords.matches(lookup, [ids["memory/a.md"]])
        assert paths(only.best(10)[0]) == ["memory/a.md"]
        assert view.keywords.matches(lookup, []).best(10) == ([], [])
        assert paths(view.keywords.matches(lookup, None).best(10)[0]) == ["memory/c.md"]


def test_what_is_remembered_outlives_the_store(store, opened):
    with store.view() as view:
        assert view.remembered("device") is None
    for text in ("one", "another"):
        with store.writer() as writer:
            writer.remember("device", text)
            assert writer.remembered("device") == text
    store.close()
    with opened().view() as view:
        assert view.remembered("device") == "another"


def test_a_version_changes_with_every_commit_and_with_nothing_else(store, shelf):
    def version():
        with store.view() as view:
            view.probe()
            return view.version()

    first = version()
    assert version() == first
    shelf.write("memory/a.md", "boiler\n")
    second = version()
    assert second.reader == first.reader
    assert second != first


def piece(shelf, end, text, numbers, **how):
    begin = how.pop("begin", START)
    return TranscriptPiece(
        path="sessions/a.jsonl",
        stamps=(end.end_byte, 1, 1, 7),
        pipeline="test",
        read_at_ns=1,
        begin=begin,
        end=end,
        numbers=numbers,
        prepared=shelf.prepare("a", text),
        **({"is_last": True, "is_rewritten": False} | how),
    )


def test_a_transcript_grows_by_parts_and_knows_the_entry_of_each_turn(store, shelf):
    first = Checkpoint(100, 4, 2, len("one boiler\ntwo pump\n"), b"tail", b"digest")
    second = Checkpoint(150, 9, 3, first.end_char + len("three valve\n"), b"tail 2", b"digest 2")
    with store.writer() as writer:
        writer.transcripts.publish(piece(shelf, first, "one boiler\ntwo pump\n", (2, 4)))
        writer.transcripts.publish(piece(shelf, second, "three valve\n", (9,), begin=first))
    with store.view() as view:
        (known,) = view.transcripts.indexed().values()
        assert view.transcripts.one("sessions/a.jsonl") == known
        assert view.transcripts.one("sessions/b.jsonl") is None
        assert (known.end_byte, known.end_line) == (150, 9)
        assert view.transcripts.checkpoints(known.file_id) == [START, first, second]
        spans = [TurnRange(known.file_id, 1, 2), TurnRange(known.file_id, 2, 3)]
        assert view.transcripts.entries(spans) == {spans[0]: (2, 4), spans[1]: (4, 9)}
        assert view.files.count("sessions") == (1, 2)
        assert view.keywords.corpus().sources == {"sessions"}


def test_a_source_of_transcripts_is_enrolled_once_and_counts_no_file_before_it_is_taken_in(store):
    sources = ("sessions", "sessions of the host")
    with store.writer() as writer:
        writer.remember("sessions of others", "1")
        writer.transcripts.enrol("sessions", ["sessions/a.jsonl"])
    with store.view() as view:
        assert view.transcripts.enrolled(sources) == {"sessions"}
        assert view.transcripts.indexed()["sessions/a.jsonl"].pipeline == ""
        assert view.files.count("sessions") == (0, 0)
    with store.writer() as writer:
        writer.transcripts.disenrol(sources)
        assert writer.transcripts.enrolled(sources) == frozenset()


def direction(number):
    vector = np.zeros(4, np.float32)
    vector[number] = 1.0
    return vector


def test_a_text_waits_for_its_vector_its_next_attempt_or_its_job(store, shelf, fingerprint):
    for number, text in enumerate(["boiler", "pump", "valve"]):
        shelf.write(f"memory/{text}.md", text, at=10 - number)
    with store.writer() as writer:
        embeddings = writer.embeddings
        pending = embeddings.pending(fingerprint, limit=10)
        assert [text for _, text in pending] == ["boiler", "pump", "valve"]
        (boiler, _), (pump, _), (valve, _) = pending
        assert fingerprint.digest() not in embeddings.dimensions()
        embeddings.put(fingerprint, [(boiler, direction(0))])
        embeddings.record_failures(fingerprint, [(pump, "refused")])
        assert embeddings.backlog(fingerprint) == [(valve, len("valve"))]
        job = JobRecord(label="a", digest=fingerprint.digest(), items=1, created_at_ms=1)
        writer.jobs.add(job, [valve])
        assert embeddings.pending(fingerprint, limit=10) == embeddings.backlog(fingerprint) == []
        (job,) = writer.jobs.open(fingerprint.digest())
        assert list(writer.jobs.texts(job)) == [(valve, "valve")]
        writer.jobs.release(job)
        assert [text for _, text in embeddings.pending(fingerprint, limit=10)] == ["valve"]
    with store.view() as view:
        coverage = view.embeddings.coverage(fingerprint)
        assert (coverage.total, coverage.embedded, coverage.failed) == (3, 1, 1)
        (failed,) = view.embeddings.failed_texts(fingerprint, limit=5)
        assert (failed.path, failed.reason, failed.attempts) == ("memory/pump.md", "refused", 1)
        assert 0 < view.embeddings.next_retry_s(fingerprint) <= 5


def test_other_fingerprints_answer_until_they_are_dropped(store, shelf, fingerprint):
    other = Fingerprint(provider="test", model="another", endpoint="loopback")
    shelf.write("memory/a.md", "boiler")
    with store.writer() as writer:
        ((key, _),) = writer.embeddings.pending(other, limit=10)
        writer.embeddings.put(other, [(key, direction(1))])
        assert writer.embeddings.dimensions() == {other.digest(): len(direction(1))}
        assert writer.embeddings.superseded(fingerprint) == other
        assert writer.embeddings.superseded(other) is None
        writer.embeddings.drop_superseded([fingerprint])
        assert other.digest() not in writer.embeddings.dimensions()
        assert writer.embeddings.superseded(fingerprint) is None


def test_a_wish_to_cancel_a_job_survives_what_is_written_down_meanwhile(store, fingerprint):
    job = JobRecord(label="a", digest=fingerprint.digest(), items=1, created_at_ms=1)
    with store.writer() as writer:
        writer.jobs.add(job, [b"1" * 16])
        (known,) = writer.jobs.recent()
        assert writer.jobs.wish_to_cancel(known) is None
        assert writer.jobs.ask_to_cancel(known.id)
        assert not writer.jobs.ask_to_cancel(known.id + 1)
        writer.jobs.save(known)
        assert writer.jobs.wish_to_cancel(known) is not None
        assert writer.jobs.waiting(fingerprint.digest()) == 1
        assert writer.jobs.waiting_hashes(known) == {b"1" * 16}
