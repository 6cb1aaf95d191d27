"""The vaults of the benchmark of languages, what it counts, and a run of it."""

from __future__ import annotations

import unicodedata

import pytest

from benchmarks.languages import FTS5, OURS, Asked, Counts, Found, by_fts5, measure, run, vaults
from fakes.each import each

VAULTS = {vault.language: vault for vault in vaults()}
PAGE = 2000
ASKED = Asked("When is the kettle fixed?", "b.md", ("The kettle is fixed on Friday.",))
ANSWER = ("b.md", "# Kitchen\n\nThe kettle is\nfixed on Friday.")


def test_there_are_some_forty_languages_each_with_its_own_name():
    assert len(VAULTS) == len(vaults()) > 40


@each("language", VAULTS)
def test_every_question_of_a_language_is_asked_once_and_has_its_answer_in_a_line(language):
    vault = VAULTS[language]
    assert any(asked.path for asked in vault.asked)
    assert any(not asked.path for asked in vault.asked)
    assert len({asked.question for asked in vault.asked}) == len(vault.asked)
    for asked in vault.asked:
        assert asked.question.strip()
        assert not asked.path or asked.lines, asked


def test_a_vault_is_written_as_its_data_says_and_one_file_decomposed(tmp_path):
    vault = VAULTS["mixed-forms"]
    vault.write(tmp_path)
    written = {path: (tmp_path / path).read_text(encoding="utf-8") for path in vault.files}
    decomposed = [path for path, text in written.items() if text != vault.files[path]]
    assert decomposed == ["nfd.md"]
    assert unicodedata.normalize("NFC", written["nfd.md"]) == vault.files["nfd.md"]


@each(
    ("results", "found"),
    [
        ([ANSWER], Found(first=True, shown=True)),
        ([("a.md", ANSWER[1]), ("b.md", "# Kitchen")], Found(first=False, shown=False)),
        ([("a.md", "x" * (PAGE - 100)), ANSWER], Found(first=False, shown=True)),
        ([("a.md", "x" * (PAGE - 10)), ANSWER], Found(first=False, shown=False)),
        ([("a.md", "x" * (PAGE + 10)), ANSWER], Found(first=False, shown=False)),
        ([], Found(first=False, shown=False)),
    ],
)
def test_an_answer_counts_in_its_own_note_as_far_as_the_page_goes(results, found):
    assert Found.of(ASKED, results) == found


def test_counts_of_all_vaults_are_the_sum_of_theirs():
    one, total = Counts(questions=2, recalled=1, absent=3, likely=1, disturbed=2), Counts()
    one.count(OURS, Found(first=True, shown=False))
    total.add(one)
    total.add(one)
    assert list(total.row()) == ["4", "2 / 0", "0 / 0", "0 / 0", "2", "6", "2", "4"]


def test_plain_fts5_finds_words_and_with_trigrams_parts_of_them():
    counts = Counts()
    for system, tokenizer in FTS5.items():
        by_fts5(VAULTS["german"], system, tokenizer, counts)
    words, trigrams = (counts.first[system] for system in FTS5)
    assert 0 < words < trigrams


@pytest.mark.anyio
@each("language", ["greek", "japanese"])
async def test_the_right_note_is_first_for_most_questions(language):
    vault = VAULTS[language]
    counts = await measure(vault)
    assert counts.questions + counts.absent == len(vault.asked)
    assert counts.first[OURS] > 0.8 * counts.questions
    assert counts.shown[OURS] > 0.8 * counts.questions
    assert counts.recalled > 0
    assert counts.likely == 0


@pytest.mark.anyio
async def test_the_table_has_a_row_for_each_language_and_one_for_all():
    table = await run([VAULTS["lao"]])
    language, *columns = (list(column.cells) for column in table.columns)
    assert language == ["lao", "all"]
    assert [one for one, _ in columns] == [one for _, one in columns]
    assert len(columns) == len(list(Counts().row()))
