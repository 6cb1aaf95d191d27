"""Passages and scores for the documents that QMD proposes."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from backends.files.roots import Location
from backends.qmd.answering import Documents, Proposal, analyse, document_passages, lexical_passages

FILLER = "\n".join(f"- Filler line number {number} about nothing." for number in range(80))


def proposals(*texts: str, scores: tuple[float, ...] = ()) -> list[Proposal]:
    return [
        Proposal(analyse(text), scores[number] if scores else 0.0, None)
        for number, text in enumerate(texts)
    ]


def test_the_passage_is_where_the_answer_is_not_where_the_file_begins():
    text = f"# Day\n\n{FILLER}\n- The walrus was fed at noon.\n{FILLER}\n"
    (found, *_) = lexical_passages("when was the walrus fed", proposals(text), max_chars=200)
    assert "walrus was fed" in found.passage.text
    assert found.passage.start_line <= 83 <= found.passage.end_line
    assert len(found.passage.text) <= 200


def test_a_score_of_zero_hides_no_hit():
    found = list(
        lexical_passages("boiler", proposals("The boiler.", "The boiler again."), max_chars=99)
    )
    assert len(found) == 2
    assert all(one.score > 0.35 for one in found)


def test_a_rare_word_tells_more_than_a_common_one():
    texts = [f"The report of day {day} is here." for day in range(9)] + ["A walrus."]
    first = next(iter(lexical_passages("walrus report", proposals(*texts), max_chars=99)))
    assert first.passage.text == "A walrus."


def test_models_keep_their_order_and_their_scores():
    found = list(
        document_passages(
            "warm house", proposals("Heating.", "The warm house.", scores=(0.9, 0.4)), max_chars=99
        )
    )
    assert [(one.passage.file_id, one.score) for one in found] == [(0, 0.9), (1, 0.4)]


def test_without_a_word_in_common_the_passage_is_where_qmd_points():
    text = f"{FILLER}\nHeating was repaired.\n{FILLER}\n"
    (found,) = document_passages("temperature", [Proposal(analyse(text), 0.7, 81)], max_chars=60)
    assert found.passage.start_line == 81
    assert "Heating" in found.passage.text


def test_an_empty_document_gives_nothing():
    assert list(lexical_passages("boiler", proposals("", " \n"), max_chars=99)) == []
    assert list(document_passages("boiler", proposals(""), max_chars=99)) == []


words = st.lists(st.sampled_from("boiler walrus tea report of the".split()), max_size=12).map(
    " ".join
)


@given(words, st.lists(words, max_size=6))
def test_scores_stay_in_range_and_never_rise(question, texts):
    scores = [one.score for one in lexical_passages(question, proposals(*texts), max_chars=30)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_analysed_documents_take_so_many_bytes(tmp_path):
    documents = Documents(most_bytes=300_000)
    for number in range(60):
        words = " ".join(f"word{number}x{place}" for place in range(300))
        (tmp_path / f"{number}.md").write_text(words, encoding="utf-8")
        place = Location(f"{number}.md", str(tmp_path), (f"{number}.md",))
        assert documents.get(place).pieces[0].text.startswith(f"word{number}x0")
        assert documents.get(place) is documents.get(place)
        assert documents.bytes_used <= 300_000


def test_the_bytes_of_a_document_are_those_that_it_takes():
    text = "\n\n".join(f"# Part {part}\n\n" + f"word{part} common " * 100 for part in range(50))
    analyse(text)
    tracemalloc.start()
    try:
        document = analyse(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 * taken < document.bytes_used < 1.6 * taken
