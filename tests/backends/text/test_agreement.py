"""Stored texts and queries are analysed alike, and FTS5 keeps every term whole."""

from hypothesis import given
from hypothesis import strategies as st

from backends.ranking.query import QueryAnalyser
from backends.text.analyser import Analyser, normalise, tokens

LANGUAGES = ("english", "german", "french", "turkish", "russian")


def is_word_character(character: str) -> bool:
    """Returns whether FTS5's ascii tokenizer keeps the character inside a word, with `_` among its token characters."""
    return character.isalnum() or character == "_" or character > "\x7f"


@given(data=st.data())
def test_terms_hold_only_what_a_plain_tokenizer_keeps_together(texts, data):
    terms = Analyser().terms(data.draw(texts))
    assert all(is_word_character(character) for character in terms.replace(" ", ""))
    assert terms == " ".join(terms.split(" "))
    assert "" not in terms.split(" ") or terms == ""


@given(data=st.data())
def test_a_real_fts5_table_finds_a_text_by_each_of_its_terms(texts, found_by, data):
    terms = Analyser().terms(data.draw(texts))
    for term in set(terms.split()):
        assert found_by(terms, term), term


@given(data=st.data(), language=st.sampled_from(LANGUAGES), others=st.permutations(LANGUAGES))
def test_every_word_of_a_text_asked_alone_finds_it(texts, data, language, others):
    text = data.draw(texts)
    stored = set(Analyser(language).terms(text).split())
    asker = QueryAnalyser({language, *others[:2]})
    for token in tokens(normalise(text)):
        concepts = asker.analyse(token).concepts
        if Analyser(language).concepts(token):
            assert concepts
            for concept in concepts:
                assert stored & set(concept.alternatives), (token, concept)


@given(data=st.data())
def test_a_text_is_found_by_itself(texts, data):
    text = data.draw(texts)
    stored = set(Analyser().terms(text).split())
    for concept in QueryAnalyser(["english"]).analyse(text).concepts:
        assert stored & set(concept.alternatives)


@given(data=st.data())
def test_no_concept_is_empty_and_none_has_an_empty_term(texts, data):
    for concept in QueryAnalyser(LANGUAGES).analyse(data.draw(texts)).concepts:
        assert concept.alternatives
        assert all(concept.alternatives)
