"""The preparation of a file's text before it is stored."""

import threading
import time
from datetime import date

import pytest

from backends.builtin.syncing.preparing import Preparer
from backends.chunking import HEADING_SEPARATOR, ChunkLimits
from backends.text.analyser import Analyser, stop_words_of
from backends.text.times import date_of
from backends.text.units import split_units
from fakes.each import each


@pytest.fixture
def preparer():
    return Preparer(ChunkLimits())


@each(
    ("path", "day"),
    [
        ("memory/2026-02-08.md", date(2026, 2, 8)),
        ("memory/deep/er/2026-02-08-plan.md", date(2026, 2, 8)),
        ("memory/plan-2024-02-29.md", date(2024, 2, 29)),
        ("../vault/2026-12-31 review.md", date(2026, 12, 31)),
        ("memory/2026-02-30.md", None),
        ("memory/2026-13-01.md", None),
        ("memory/0000-01-01.md", None),
        ("memory/12026-02-08.md", None),
        ("memory/2026-02-081.md", None),
        ("memory/2026-02-08/plan.md", None),
        ("MEMORY.md", None),
    ],
)
def test_the_date_of_a_note_stands_in_its_name(path, day):
    assert date_of(path) == day


@pytest.mark.parametrize("text", ["", "\n\n", "  \t \n"])
def test_blank_text_gives_no_chunks(preparer, text):
    assert preparer.prepare("memory/a.md", text).chunks == ()


def test_a_chunk_says_where_it_stands_and_what_it_belongs_to(preparer):
    text = "# Home\n\nIntro.\n\n" + "## Boiler\n\n" + "- The membrane is new.\n" * 200
    chunks = preparer.prepare("memory/2026-02-08.md", text).chunks
    assert len(chunks) > 1
    for chunk in chunks:
        assert text[chunk.start :].startswith(chunk.text)
        assert text.count("\n", 0, chunk.start) == chunk.start_line - 1
    assert chunks[-1].headings == f"# Home{HEADING_SEPARATOR}## Boiler"
    assert {"home", "boiler", "februari", "2026"} <= set(chunks[-1].context.split())


def test_there_is_one_line_of_terms_for_each_unit(preparer):
    text = "# Title\n\n" + "word " * 400 + "\n\n- 今天开会\n- \n"
    for chunk in preparer.prepare("memory/a.md", text).chunks:
        assert len(chunk.terms.split("\n")) == len(split_units(chunk.text))


def test_languages_are_told_chunk_by_chunk_with_that_of_the_file_for_short_ones(preparer):
    german = (
        "Gestern haben wir mit dem Lieferanten gesprochen und er sagte, dass der Preis steigt. "
    )
    english = (
        "We met with the supplier and he told us that the price of tea will rise in the spring. "
    )
    both = f"# Notizen\n\n{german * 25}\n\n# Notes\n\n{english * 25}\n"
    assert preparer.prepare("memory/a.md", both).languages == {"german", "english"}


def test_the_same_text_at_another_place_keeps_its_identity(preparer):
    section = "## Boiler\n\n" + "- The membrane of the heating pump is new.\n" * 30
    before = preparer.prepare("memory/a.md", "# A\n\n" + section + section.replace("new", "old"))
    after = preparer.prepare(
        "memory/a.md", "# A\n\nOne more line.\n\n" + section + section.replace("new", "old")
    )
    kept = {chunk.identity for chunk in before.chunks} & {chunk.identity for chunk in after.chunks}
    assert kept


def test_identity_covers_context_and_the_key_of_embeddings_only_the_text(preparer):
    (one,) = preparer.prepare("memory/2026-02-08.md", "- The boiler.\n").chunks
    (other,) = preparer.prepare("memory/2026-02-09.md", "- The boiler.\n").chunks
    assert one.identity != other.identity
    assert [x.text_hash for x in one.excerpts] == [x.text_hash for x in other.excerpts] != []


def test_numbers_of_titles_and_headings_are_no_large_number_written_in_groups(preparer):
    text = "# 120\n\n## 340 bolts\n\nThey are here.\n"
    (one,) = preparer.prepare("memory/shelf 7", text).chunks
    numbers = [term for term in one.context.split() if term.isdigit()]
    assert numbers == ["7", "120", "120", "340"]


def test_the_pipeline_names_the_limits(preparer):
    assert preparer.pipeline != Preparer(ChunkLimits(tokens=200)).pipeline
    assert preparer.pipeline == Preparer(ChunkLimits()).pipeline


def test_the_words_of_all_languages_together_take_so_many_bytes():
    preparer = Preparer(ChunkLimits(), words_bytes=40_000)
    languages = {
        "english": "the and of to is",
        "german": "der und nicht ist ein",
        "french": "le et est une dans",
    }
    first = None
    for number in range(30):
        for stop_words in languages.values():
            words = " ".join(f"{stop_words} wort{number}x{place}" for place in range(20))
            text = f"# Title\n\n{words}\n" * 3
            terms = [chunk.terms for chunk in preparer.prepare("memory/a.md", text).chunks]
            assert preparer.bytes_used <= 40_000 + 10_000  # what one chunk brings
        first = first or terms
    text = "# Title\n\n" + " ".join(f"le et est une dans wort0x{place}" for place in range(20))
    again = preparer.prepare("memory/a.md", f"{text}\n" * 3)
    assert [chunk.terms for chunk in again.chunks] == first


def test_the_threads_of_a_sync_and_of_a_search_prepare_at_the_same_time(monkeypatch):
    preparer = Preparer(ChunkLimits(), words_bytes=5_000)
    bytes_used = Analyser.bytes_used.fget

    def held_after_others(analyser):
        time.sleep(0.0001)  # lets the other threads go on
        return bytes_used(analyser)

    monkeypatch.setattr(Analyser, "bytes_used", property(held_after_others))
    texts = [
        f"# T\n\n{' '.join(words.split() * 5)} {' '.join(f'w{n}x{number}' for n in range(30))}\n"
        for number, words in enumerate(stop_words_of_some())
    ]
    expected = [Preparer(ChunkLimits()).prepare("memory/a.md", text) for text in texts]
    wrong = []

    def prepare(shift):
        for number in range(60):
            place = (number * (shift + 1)) % len(texts)
            try:
                if preparer.prepare("memory/a.md", texts[place]) != expected[place]:
                    wrong.append(place)
            except RuntimeError as error:
                wrong.append(error)

    threads = [threading.Thread(target=prepare, args=(shift,)) for shift in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def stop_words_of_some():
    """Enough stop words of some languages to be recognised as them."""
    return [
        " ".join(sorted(stop_words_of(name))[:20])
        for name in ("english", "german", "french", "dutch")
    ]
