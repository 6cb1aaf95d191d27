"""The passages of candidate chunks: their lines, length, order and score."""

import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from backends.chunking import ChunkLimits
from backends.interface import GAP, Stretch
from backends.ranking.evidence import NO_EVIDENCE, Evidence
from backends.ranking.fusion import PassageRanker, RankedPassage
from backends.ranking.layout import Layout
from backends.ranking.lines import units_by_file
from backends.ranking.names import is_heading
from backends.ranking.query import Concept, Weights
from backends.ranking.selection import File, Passage, Selection, best_selections
from backends.text.analyser import Analyser
from backends.text.units import utf16_length
from fakes.each import each

WORDS = (
    "boiler pump membrane valve invoice supplier tea price garden kitchen meeting router".split()
)


def some_note(rng: Random) -> str:
    """Short lines, long ones, blank ones and headings."""
    lines = []
    for _ in range(rng.randint(1, 40)):
        words = rng.choice((0, 3, 8, 8, 8, 30, 200))
        start = rng.choice(("", "- ", "- ", "## ", "🎉 "))
        lines.append(start + " ".join(rng.choices(WORDS, k=words)) + rng.choice(("", ".", ". ")))
    return "\n".join(lines)


@st.composite
def searched(draw) -> tuple[str, str, ChunkLimits, Random]:
    rng = Random(draw(st.integers(0, 2**32)))
    limits = ChunkLimits(rng.choice((40, 100, 400)), rng.choice((0, 20, 80)))
    return some_note(rng), " ".join(rng.sample(WORDS, rng.randint(1, 4))), limits, rng


def content_of(ranked: Sequence[RankedPassage]) -> list[dict[str, object]]:
    """Returns the content of the passages, and the line numbers of the files behind them."""
    return [{**asdict(one), "selection": one.selection.at} for one in ranked]


def places(passage: Passage, text: str) -> list[tuple[int, int]]:
    """Returns the first and last character of each stretch of a passage in its file."""
    found, end = [], 0
    for piece, lines in zip(passage.text.split(GAP), passage.stretches, strict=True):
        line = sum(len(one) for one in text.splitlines(keepends=True)[: lines.start_line - 1])
        start = text.index(piece, max(line, end))
        assert text.count("\n", 0, start) == lines.start_line - 1
        assert piece.count("\n") == lines.end_line - lines.start_line
        end = start + len(piece)
        found.append((start, end))
    return found


def spans(passages: Sequence[Passage], text: str) -> list[tuple[int, int]]:
    return sorted(place for one in passages for place in places(one, text))


def lines_of(passage: Passage) -> list[str]:
    return [line for piece in passage.text.split(GAP) for line in piece.split("\n")]


def test_the_passage_is_the_part_of_a_long_chunk_that_answers(passages):
    lines = [f"- Something about the garden, number {number}." for number in range(200)]
    lines[150] = "- The boiler needs a new membrane."
    best = passages("\n".join(lines), "boiler membrane")[0]
    assert lines[150] in best.text
    assert best.start_line <= 151 <= best.end_line
    assert len(best.text) <= 700


def test_whole_lines_are_returned(passages):
    text = "\n".join(f"- line {number} says something about the boiler" for number in range(60))
    for passage in passages(text, "boiler"):
        assert set(lines_of(passage)) <= set(text.split("\n"))


def test_two_distant_places_of_one_chunk_are_two_passages(passages):
    lines = [f"- Filling words without meaning, number {number}." for number in range(120)]
    lines[10] = lines[100] = "- The boiler was serviced."
    found = passages("\n".join(lines), "boiler")
    assert {11, 101} <= {line for one in found for line in range(one.start_line, one.end_line + 1)}


def test_every_line_that_answers_is_in_some_passage(passages):
    lines = [f"- Filling words without meaning, number {number}." for number in range(120)]
    hits = [3, 12, 25, 31, 60, 61, 62, 75, 88, 119]
    for number in hits:
        lines[number] = f"- The boiler was serviced, visit {number}."
    shown = "\n".join(passage.text for passage in passages("\n".join(lines), "boiler"))
    assert all(lines[number] in shown for number in hits)


def test_a_passage_that_holds_more_of_the_question_is_better(passages):
    filling = "\n".join(f"- Filling words, number {number}." for number in range(60))
    text = f"- The boiler is old.\n{filling}\n- The boiler needs a membrane.\n{filling}\n"
    assert "needs a membrane" in passages(text, "boiler membrane")[0].text


def test_a_rare_word_weighs_more_than_a_common_one(candidates_of, weigh, rank):
    filling = "\n".join(f"- Filling words, number {number}." for number in range(60))
    text = f"- An invoice came.\n{filling}\n- The membrane broke.\n"
    weights = weigh("invoice membrane", invoic=90, membran=1)
    assert "membrane" in rank(candidates_of(text), weights)[0].passage.text


def test_saying_a_word_ten_times_does_not_beat_saying_both(passages):
    filling = "\n".join(f"- Filling words, number {number}." for number in range(60))
    text = f"- {'boiler ' * 10}\n{filling}\n- boiler membrane\n"
    assert "membrane" in passages(text, "boiler membrane")[0].text


def test_a_word_repeated_in_the_query_changes_nothing(candidates_of, weigh, rank):
    candidates = candidates_of("- boiler\n" * 3 + "- membrane\n")
    once = rank(candidates, weigh("boiler membrane"), max_chars=20)
    again = rank(candidates, weigh("boiler boilers Boiler membrane"), max_chars=20)
    assert content_of(once) == content_of(again)


def test_a_line_between_two_taken_windows_gets_its_turn(passages):
    lines = [f"- Filling words without any meaning, number {number:02}." for number in range(40)]
    for number in (15, 20, 25):
        lines[number] = "- The boiler of the house was serviced once more."
    lines[20] = "- The boiler."
    lines[25] = lines[25].replace("more", "again")
    shown = [one.text for one in passages("\n".join(lines), "boiler house serviced", max_chars=300)]
    assert any(lines[20] in text for text in shown)
    assert sum(text.count(lines[15]) + text.count(lines[25]) for text in shown) == 2


def test_blank_edges_and_a_heading_without_its_text_are_left_off(passages):
    (passage,) = passages("\n\n- the boiler\n\n## Next\n", "boiler")
    assert passage.text == "- the boiler"
    assert (passage.start_line, passage.end_line) == (3, 3)


def test_a_heading_that_matches_brings_the_text_below_it(passages):
    (passage,) = passages("## Boiler\n\n- Serviced in October.\n", "boiler")
    assert passage.text == "## Boiler\n\n- Serviced in October."


def test_overlapping_chunks_of_a_file_are_one_text(passages):
    text = "\n".join(f"- line {number} about the boiler and the garden" for number in range(100))
    limits = ChunkLimits(tokens=120, overlap=60)
    found = passages(text, "boiler", limits=limits)
    assert all(one[1] <= two[0] for one, two in pairwise(spans(found, text)))
    assert len({passage.text for passage in found}) == len(found)


def test_of_overlapping_chunks_the_better_one_gives_the_score_of_words(candidates_of, weigh, rank):
    text = "\n".join(f"- line {number} about the garden" for number in range(30)) + "\n- boiler"
    chunks = candidates_of(text, limits=ChunkLimits(tokens=150, overlap=80))
    weak = [replace(chunk, bm25=0.01) for chunk in chunks]
    strong = [replace(chunk, bm25=3.0) for chunk in chunks]
    best = rank(weak + strong[-1:], weigh("boiler"))[0]
    assert best.text_score == rank(strong, weigh("boiler"))[0].text_score
    assert best.passage.chunk_id == strong[-1].chunk_id


def test_equal_passages_come_in_the_order_of_files_and_lines(candidates_of, weigh, rank):
    texts = [(file_id, f"- boiler {'abc'[file_id - 1]}\n- garden\n") for file_id in (3, 1, 2)]
    candidates = [one for file_id, text in texts for one in candidates_of(text, file_id=file_id)]
    first = rank(candidates, weigh("boiler"))
    assert content_of(first) == content_of(rank(candidates[::-1], weigh("boiler")))
    assert [one.passage.file_id for one in first] == [1, 2, 3]


def test_later_blocks_do_not_repeat_what_earlier_ones_showed(candidates_of, weigh):
    ranker = PassageRanker(weigh("boiler"), max_chars=700)
    candidates = candidates_of("- boiler one\n- boiler two\n")
    assert list(ranker.rank(candidates))
    assert not list(ranker.rank(candidates))
    assert not list(ranker.rank(candidates_of("- boiler one\n- boiler two\n", file_id=2)))


def test_later_blocks_never_score_higher_than_earlier_ones(candidates_of, weigh):
    ranker = PassageRanker(weigh("boiler membrane"), max_chars=700)
    weak = list(ranker.rank(candidates_of("- boiler\n", file_id=1, bm25=0.1)))
    strong = list(ranker.rank(candidates_of("- boiler membrane\n", file_id=2, bm25=4.0)))
    assert weak[-1].score >= strong[0].score


@pytest.mark.parametrize("text", ["", "\n", "   \n\t\n"])
def test_chunks_without_words_give_no_passage(text, candidates_of, weigh, rank):
    assert rank([replace(one, bm25=0.0) for one in candidates_of(text)], weigh("boiler")) == []


def test_no_candidates_give_no_passages(weigh, rank):
    assert rank([], weigh("boiler")) == []


def test_a_term_that_no_chunk_holds_and_an_empty_collection_do_no_harm(candidates_of, rank):
    weights = Weights([Concept(("boiler",)), Concept(("absent",))], {}, 0)
    (passage,) = rank(candidates_of("- boiler\n"), weights)
    assert 0 < passage.score <= 1
    assert rank(candidates_of("- x\n", bm25=0.0), Weights([], {}, 0)) == []


def test_a_chunk_that_was_found_by_its_title_alone_gives_what_it_says(candidates_of, weigh, rank):
    (candidate,) = candidates_of("- Hartmann comes.\n- In October.\n")
    (ranked,) = rank([replace(candidate, context="boiler")], weigh("boiler"))
    passage = ranked.passage
    assert passage.text == "- Hartmann comes.\n- In October."
    assert passage.matched == ()


def test_a_single_character_matches_every_run_that_holds_it(passages):
    assert "茶叶" in passages("- 今天谈了茶叶的价格\n", "茶")[0].text
    assert "格" in passages("- 今天谈了茶叶的价格\n", "格")[0].text


@given(searched())
def test_every_passage_is_the_text_of_its_lines(candidates_of, weigh, rank, search):
    text, query, limits, _ = search
    for ranked in rank(candidates_of(text, limits=limits), weigh(query)):
        passage = ranked.passage
        found = places(passage, text)
        assert all(one[1] <= two[0] for one, two in pairwise(found))
        assert found[0][0] == passage.start
        ends = passage.stretches[0].start_line, passage.stretches[-1].end_line
        assert (passage.start_line, passage.end_line) == ends
        assert utf16_length(passage.text) <= 700


@given(searched())
def test_scores_are_shares_and_fall(candidates_of, weigh, rank, search):
    text, query, limits, rng = search
    chunks = candidates_of(text, limits=limits)
    found = rank([replace(one, bm25=rng.uniform(0, 4)) for one in chunks], weigh(query))
    assert all(0 <= one.score <= 1 for one in found)
    assert all(0 <= one.passage.coverage <= 1 and 0 <= one.text_score <= 1 for one in found)
    assert all(one.score >= two.score for one, two in pairwise(found))


@given(searched())
def test_a_passage_covers_something_exactly_when_it_matched_something(
    candidates_of, weigh, rank, search
):
    text, query, limits, _ = search
    for ranked in rank(candidates_of(text, limits=limits), weigh(query)):
        assert bool(ranked.passage.matched) == (ranked.passage.coverage > 0)


@given(searched())
def test_every_passage_shows_something_that_no_earlier_one_has_shown(
    candidates_of, weigh, rank, search
):
    text, query, limits, _ = search
    shown: set[int] = set()
    for ranked in rank(candidates_of(text, limits=limits), weigh(query)):
        units = ranked.selection.units()
        characters = {at for unit in units for at in range(unit.start, unit.end)}
        assert not characters <= shown
        shown |= characters


@given(searched())
def test_every_passage_holds_the_words_that_it_matched_and_that_its_score_counts(
    candidates_of, weigh, rank, search
):
    text, query, limits, _ = search
    analyser = Analyser()
    for ranked in rank(candidates_of(text, limits=limits), weigh(query)):
        passage = ranked.passage
        terms = set(analyser.terms(f"{passage.text} {' '.join(passage.headings)}").split())
        assert passage.matched
        assert all(terms.intersection(one.alternatives) for one in passage.matched)


def test_lines_whose_age_leaves_next_to_nothing_stand_beside_an_exact_match(
    candidates_of, weigh, rank
):
    lines = ["boiler membrane", *["filling"] * 5, *["an old boiler of its own"] * 2]
    (chunk,) = candidates_of("\n\n".join(lines), bm25=2.0)
    ranked = rank([replace(chunk, freshness=1e-30)], weigh("boiler membrane"), max_chars=60)
    assert ranked[0].passage.text.startswith("boiler membrane")
    assert any("an old boiler" in one.passage.text for one in ranked)


@pytest.fixture(scope="module")
def weighed(candidates_of, weigh):
    """Files of random notes whose lines have one of a few odds, so that many selections are equal."""

    def make(seed: int, count: int) -> list[File]:
        rng = Random(seed)
        weights = weigh(" ".join(rng.sample(WORDS, 4)))
        files = []
        for number in range(count):
            candidates = candidates_of(some_note(rng), file_id=count - number)
            for (file_id, path, _), units in units_by_file(candidates, weights).items():
                odds = [rng.choice((0.0, 0.0, 1e-20, 0.5, 0.5, 2.0)) for _ in units]
                file = File(file_id, path, units, [NO_EVIDENCE] * len(units), odds, 200)
                if units and rng.random() < 0.3:
                    file.take([(units[0].start, rng.choice(units).end)])
                files.append(file)
        return files

    return make


@pytest.fixture
def weighed_text(candidates_of, weigh):
    """A file of one text, whose lines have that much evidence by words."""

    def make(text: str, query: str, *, by_words: float = 1.0) -> File:
        (units,) = units_by_file(candidates_of(text), weigh(query)).values()
        odds = [1.0 if unit.concepts else 0.0 for unit in units]
        return File(1, "a.md", units, [Evidence(by_words, 0.0)] * len(units), odds, 700)

    return make


@given(seed=st.integers(0, 2**32), data=st.data())
def test_what_shares_a_character_with_what_was_shown_is_taken(weighed, seed, data):
    place = st.tuples(st.integers(0, 400), st.integers(0, 400)).map(sorted).map(tuple)
    spans = data.draw(st.lists(place, max_size=8))
    for file in weighed(seed, 2):
        before = [file.is_taken(at) for at in range(len(file.units))]
        file.take(spans)
        for at, unit in enumerate(file.units):
            is_shown = any(unit.start < end and start < unit.end for start, end in spans)
            assert file.is_taken(at) == (before[at] or is_shown)


@each("line", ["- a", "| a | b |", "```"])
def test_the_time_for_a_note_of_short_lines_grows_with_its_length_only(line, candidates_of, weigh):
    def cost(count: int) -> float:
        chunks = candidates_of("\n".join([line] * count))
        (units,) = units_by_file(chunks, weigh("boiler")).values()
        odds = [0.0] * (len(units) - 60) + [1.0] * 60
        file = File(1, "a.md", units, [NO_EVIDENCE] * len(units), odds, 700)
        begin = time.process_time()
        file.take([(one.start, one.end) for one in units[: count // 5]])
        file.best()
        return time.process_time() - begin

    cost(1_000)
    least = max(cost(2_000), 0.002)
    # Other work on the machine adds to any of them.
    assert min(cost(20_000) for _ in range(3)) < 40 * least


def selections_in_order(files: Sequence[File]) -> Iterator[Selection]:
    """Yields the same as `best_selections`, but looks at every file for each of them."""
    while found := [selection for file in files if (selection := file.best())]:
        best = min(found, key=Selection.order)
        best.file.take_all(best)
        yield best


@given(seed=st.integers(0, 2**32), count=st.integers(1, 5))
def test_files_that_are_looked_at_late_give_the_order_of_all(weighed, seed, count):
    late = [(*one.order(), one.at) for one in best_selections(weighed(seed, count))]
    assert late == [(*one.order(), one.at) for one in selections_in_order(weighed(seed, count))]


@given(seed=st.integers(0, 2**32))
def test_a_selection_fits_is_free_and_begins_with_the_best_line(weighed, seed):
    for file in weighed(seed, 3):
        while selection := file.best():
            free = [at for at in range(len(file.units)) if not file.is_taken(at)]
            units = selection.units()
            assert sum(unit.length for unit in units) <= 200 or len(units) == 1
            assert not all(file.is_taken(at) for at in selection.at)
            earning = [
                file.odds[at]
                for at in free
                if file.odds[at] and file.units[at].concepts and not is_heading(file.units[at].text)
            ]
            assert max(earning, default=0.0) <= max(file.odds[at] for at in selection.at)
            assert selection.mass <= file.left()
            file.take_all(selection)
        assert not any(
            odds and unit.concepts and not file.is_taken(at) and not is_heading(unit.text)
            for at, (odds, unit) in enumerate(zip(file.odds, file.units, strict=True))
        )


def test_files_far_behind_are_not_looked_at(candidates_of, weigh, rank, monkeypatch):
    looked_at = []
    monkeypatch.setattr(
        File, "best", lambda file, real=File.best: looked_at.append(file) or real(file)
    )
    strong = candidates_of("The boiler membrane lost pressure.", file_id=1)
    weak = [one for number in range(2, 40) for one in candidates_of("A boiler.", file_id=number)]
    ranker = PassageRanker(weigh("boiler membrane pressure"), max_chars=200)
    (best,) = islice(ranker.rank(strong + weak), 1)
    assert best.passage.file_id == 1
    assert len(looked_at) == 1


def test_lines_that_answer_are_shown_together_with_a_gap_for_what_lies_between(passages):
    lines = [f"- Filling words without any meaning, number {number}." for number in range(60)]
    lines[5], lines[40] = "- The boiler needs a membrane.", "- The boiler got its membrane."
    best = passages("\n".join(lines), "boiler membrane", max_chars=300)[0]
    assert GAP in best.text
    assert lines[5] in best.text
    assert lines[40] in best.text
    assert (best.start_line, best.end_line) == (
        best.stretches[0].start_line,
        best.stretches[-1].end_line,
    )
    assert {6, 41} <= {n for one in best.stretches for n in range(one.start_line, one.end_line + 1)}


def test_a_line_that_is_much_weaker_is_shown_only_beside_a_better_one(passages):
    lines = [f"- Filling words without any meaning, number {number}." for number in range(60)]
    lines[5] = "- The boiler membrane lost its pressure and a valve was replaced."
    lines[40] = "- The garden got a valve."
    best = passages("\n".join(lines), "boiler membrane pressure valve replaced")[0]
    assert lines[5] in best.text
    assert len(best.stretches) == 1


def test_what_fits_into_one_snippet_is_shown_without_a_gap(passages):
    text = "- The boiler.\n\n- Something else.\n- And more.\n- Much more.\n- The boiler again."
    (best,) = passages(text, "boiler")
    assert best.text == text
    assert best.stretches == (Stretch(start_line=1, end_line=6),)


def test_no_heading_ends_a_passage_after_a_gap(passages):
    filling = "\n".join(f"Filling words, number {number}." for number in range(60))
    text = f"The boiler membrane broke.\n{filling}\n## Boiler membrane\n{filling}"
    best = passages(text, "boiler membrane", max_chars=60)[0]
    assert "The boiler membrane broke." in best.text
    assert not best.text.endswith("membrane")


FILLING = "\n\n".join(
    f"Filling words without any meaning, number {number}." for number in range(60)
)


def test_front_matter_is_not_shown_with_a_line_that_answers(passages):
    text = "---\ntags: [press]\ncssclasses: [wide]\n---\n\n# Ink\n\nTen grams of the boiler ink.\n"
    (best,) = passages(text, "boiler")
    assert best.text == "# Ink\n\nTen grams of the boiler ink."


def test_the_text_of_a_note_comes_before_front_matter_that_says_the_same(passages):
    text = f"---\ntags: [boiler]\n---\n\nThe boiler is old and needs a valve.\n\n{FILLING}"
    best, *others = passages(text, "boiler")
    assert best.text.startswith("The boiler")
    assert not any("tags:" in one.text for one in others)


def test_what_front_matter_alone_knows_is_shown_with_the_beginning_of_the_note(passages):
    text = "---\naliases: [pager, night shift]\ntags: [work]\n---\n\n# On-call\n\nA week from Tuesday noon.\n"
    best = passages(text, "pager")[0]
    assert best.text == f"aliases: [pager, night shift]{GAP}# On-call\n\nA week from Tuesday noon."


CARD = "---\nname: Anna Vogel\ntags: [client]\nrole: plumber\nphone: 0171 2298\n---\n\n"


def test_of_a_note_that_front_matter_finds_all_fields_of_its_writer_are_shown(passages):
    best = passages(f"{CARD}Met in Hanover.\n\n{FILLING}", "plumber")[0]
    assert best.text.startswith(f"role: plumber\nphone: 0171 2298{GAP}Met in Hanover.")


def test_a_note_that_is_found_by_its_name_alone_shows_its_fields(candidates_of, weigh, rank):
    candidates = candidates_of(f"{CARD}Met in Hanover.\n\n{FILLING}")
    named = [replace(one, context="anna", path="Anna.md") for one in candidates]
    best, *others = rank(named, weigh("anna mobile"))
    assert "role: plumber\nphone: 0171 2298" in best.passage.text
    assert not any("phone" in one.passage.text for one in others)


def test_many_fields_are_not_all_shown(passages):
    fields = "".join(f"field_{number}: something else of no use here\n" for number in range(12))
    text = f"---\n{fields}role: plumber\n---\n\nMet in Hanover.\n\n{FILLING}"
    best = passages(text, "plumber")[0]
    assert best.text.startswith(f"role: plumber{GAP}Met in Hanover.")


def test_no_head_of_a_table_ends_a_stretch_without_a_row(passages):
    table = "| risk | owner |\n|---|---|\n" + "".join(f"| {'x' * 90} {n} | y |\n" for n in range(9))
    (first, *_) = passages(
        f"# Plan\n\nThe invoice is due.\n\n{table}", "invoice membrane", max_chars=120
    )
    assert "invoice" in first.text
    assert "|" not in first.text


def test_no_row_is_shown_beside_a_line_without_the_head_of_its_table(passages):
    rows = "".join(f"| account {n} | number {n} | kept for later use |\n" for n in range(12))
    table = f"| service | number | note |\n|---|---|---|\n{rows}"
    (first, *_) = passages(f"{table}\n- The invoice.\n- A plate.\n", "invoice membrane valve pump")
    assert "- The invoice." in first.text
    assert "| account" not in first.text or "| service |" in first.text


def test_a_row_is_shown_with_the_head_of_its_table_whatever_lies_between(passages):
    head = "| device | price |\n|---|---|"
    chair = "| a chair of my grandmother from the old town and its two cushions, green | 30 EUR |"
    text = f"{head}\n{chair}\n| boiler | 899 EUR |\n"
    assert passages(text, "boiler")[0].text == f"{head}{GAP}| boiler | 899 EUR |"


def test_of_a_short_table_whose_columns_are_asked_for_all_rows_are_shown(passages):
    rows = "".join(f"| {bank} | 3.{number} % |\n" for number, bank in enumerate("ABCDEFGH"))
    text = f"| bank | effective rate |\n|---|---|\n{rows}"
    assert passages(f"{text}\n{FILLING}", "effective rate")[0].text == text.rstrip()


def test_what_stands_below_a_heading_that_was_asked_for_is_shown_beside_a_better_line(passages):
    better = "The flat at the river: who pays which costs, and what else the flat has."
    text = f"# Lease\n\n{better}\n\n{FILLING}\n\n## Extra costs\n\nAbout 250 EUR a month.\n"
    assert "About 250 EUR a month." in passages(text, "extra costs of the flat")[0].text


def test_the_head_of_a_table_and_a_parent_bring_no_lines_of_their_own(passages):
    head = "| day | payee | amount |\n|---|---|---|"
    others = "\n".join(f"| {day}.7. | a shop of the old town | {day} EUR |" for day in range(1, 29))
    shown = passages(f"{head}\n{others}\n| 29.7. | boiler | 899 EUR |\n", "boiler")[0].text
    assert shown.startswith(f"{head}{GAP}")
    parent = "- What came up this morning, before the others were there and the shops were open"
    items = "\n".join(f"  - the {day}. thing that somebody said" for day in range(1, 29))
    assert passages(f"{parent}\n{items}\n  - the boiler\n", "boiler")[0].text.startswith(
        f"{parent}{GAP}"
    )


def test_the_beginning_of_a_long_line_is_shown_once(passages):
    other = "They talked about the weather and the old town for a while, and went home. "
    beginning = "This is what Anna wrote down in June."
    line = f"{beginning} " + "".join(f"{other * 9}Part {n} of the boiler. " for n in range(6))
    shown = passages(line, "boiler")
    assert len(shown) > 2
    assert sum(beginning in one.text for one in shown) == 1


def test_code_is_shown_to_its_end_though_a_comment_in_it_looks_like_a_heading(passages):
    long = "x" * 90
    code = f"```sh\nboil --index {long}\n# Then wait {long}\nboil --more {long}\n```"
    text = f"Start it:\n\n{code}\n\n{FILLING}"
    assert f"Start it:\n\n{code}" in passages(text, "start")[0].text


def test_code_is_shown_with_the_line_that_announces_it_and_neither_of_them_twice(passages):
    code = """```python
import asyncio

async def gather_limited(limit, *coros):
    sem = asyncio.Semaphore(limit)
    async def run(c):
        async with sem:
            return await c
    return await asyncio.gather(*map(run, coros))
```"""
    text = f"Run things concurrently, with a limit:\n\n{code}\n\n{FILLING}"
    for question in ("limit concurrency asyncio", "asyncio"):
        first, *others = passages(text, question)
        assert f"limit:\n\n{code}" in first.text
        assert not any("asyncio" in one.text or "limit:" in one.text for one in others)


def test_what_was_shown_below_a_heading_is_not_shown_again_for_its_sake(weighed_text):
    file = weighed_text("## The boiler\n\n- A pump.\n- A membrane.\n- A valve.", "boiler")
    file.take([(file.units[3].start, file.units[3].end)])
    best = file.best()
    assert best is not None
    assert best.at == (0, 1, 2)


def test_no_stretch_grows_until_a_heading_without_what_stands_below_it(weighed_text):
    text = f"The boiler membrane broke.\n\n## The boiler\n\n{'It stood for years. ' * 30}"
    file = weighed_text(text, "boiler membrane", by_words=0.75)
    file.odds = [1.0] + [0.0] * (len(file.units) - 1)
    best = file.best()
    assert best is not None
    assert best.at == (0,)


def test_a_line_that_was_shown_and_stands_between_others_earns_nothing(weighed_text):
    file = weighed_text("- An old pump.\n- The boiler pump.\n- A new pump.", "boiler pump")
    file.odds = [1.0, 100.0, 1.0]
    file.take([(file.units[1].start, file.units[1].end)])
    best = file.best()
    assert best is not None
    assert (best.at, best.new, best.mass) == ((0, 1, 2), (0, 2), 2.0)


def test_properties_of_logseq_are_not_shown_with_a_line_that_answers(passages):
    text = "title:: Heating\ntags:: house\n\n- The boiler was serviced.\n"
    assert [one.text for one in passages(text, "boiler")] == ["- The boiler was serviced."]


def test_a_sentence_that_an_editor_divided_is_shown_whole(passages):
    wrapped = (
        "The supplier in the old town, who came by bicycle and left again before\n"
        "noon, brought the membrane that the boiler had been waiting for since the\n"
        "spring and wrote no invoice."
    )
    for word in ("bicycle", "membrane", "invoice"):
        text = f"{FILLING}\n\n{wrapped} \n\n{FILLING}"
        assert wrapped in passages(text, word, max_chars=320)[0].text


def test_an_item_of_several_lines_is_shown_whole(passages):
    item = "- The gateway keeps it below\n  `~/state/boiler`, in a\n  directory of its own."
    text = f"{FILLING}\n\n{item}\n- Another item.\n\n{FILLING}"
    for word in ("gateway", "boiler", "directory"):
        assert item in passages(text, word, max_chars=200)[0].text


def test_lines_that_end_where_their_writer_ended_them_stand_alone(passages):
    lines = [f"- Anna: nothing new about number {number}" for number in range(60)]
    lines[30] = "- Anna: the boiler is old"
    best = passages("\n".join(lines), "boiler", max_chars=60)[0]
    assert best.text == lines[30]


def test_a_short_block_of_code_is_shown_whole(passages):
    code = "```sh\nexport STATE=/var/state\nboiler --index\n```"
    best = passages(f"{FILLING}\n\n{code}\n\n{FILLING}", "boiler", max_chars=120)[0]
    assert code in best.text


def test_of_a_long_block_of_code_the_lines_beside_are_shown_and_no_fence_is_left_open(passages):
    code = "\n".join(f"step({number}, 'filling')" for number in range(60))
    text = f"Here is the code of the boiler:\n```python\n{code}\n```\n\n{FILLING}"
    best = passages(text, "boiler", max_chars=300)[0]
    assert "```" not in best.text


def test_a_line_of_a_long_log_is_shown_with_what_is_said_below_it(passages):
    log = "\n".join(f"02:14:{number} step {number} took long" for number in range(10, 40))
    said = "The balancer cuts idle connections after 25 seconds."
    text = f"```\n{log}\nBoilerTimeout: no answer\n```\n\n{said}\n\n{FILLING}"
    best = passages(text, "BoilerTimeout no answer")[0].text
    assert said in best and best.startswith("```\n…\n")


@pytest.mark.parametrize(
    ("anna", "bert"),
    [
        ("**Anna** — 08/02/2026 6:32 PM", "**Bert**  9:{} AM"),
        ("Anna Berg  0:05", "Bert Ohm 1:{}:00"),
        ("[08.02.2026 18:32] Anna Berg", "[09.02.2026 18:{}] Bert"),
        ("[Anna Berg] 18:32:05", "[Bert] 19:{}:05"),
        ("00:00:03.120 --> 00:00:07.480", "00:{}:00.000 --> 01:00:00.000 align:start"),
        ("7\n00:00:03,120 --> 00:00:07,480", "8\n00:{}:00,000 --> 01:00:00,000"),
    ],
)
def test_what_is_said_in_a_chat_is_shown_below_who_says_it_and_nobody_without_words(
    passages, anna, bert
):
    others = "".join(f"{bert.format(at)}\nSee you on Friday {at}.\n\n" for at in range(10, 40))
    said = f"{anna}\nThe boiler takes descaler only.\n"
    text = f"{others}{said}\n{others}"
    for question in ("descaler for the boiler", "What does Anna say about the boiler?"):
        best = passages(text, question, max_chars=300)[0].text
        assert said.rstrip() in best
        last = [part.split("\n")[-1] for part in best.split(GAP)]
        assert all(line.startswith(("See you", "The boiler")) for line in last)


@pytest.mark.parametrize(
    "between",
    [
        "\n",
        "\n00:00:03.120 --> 00:00:07.480\n",
        "\n7\n00:00:03,120 --> 00:00:07,480\n",
        "\nAnna 0:05\n",
    ],
)
def test_a_reply_is_shown_with_its_question_across_a_blank_line_and_who_replies(passages, between):
    asked, reply = "Bert, what about the boiler service?", "It is booked for the ninth."
    text = f"{FILLING}\n\n{asked}\n{between}{reply}\n\n{FILLING}"
    best = passages(text, "When is the boiler service?", bm25=10.0)[0].text
    assert f"{asked}\n{between}{reply}" in best


@each("colon", [":", "：", "៖"])
def test_a_list_is_shown_whole_below_the_line_that_announces_it_with_any_colon(passages, colon):
    things = "- 寝袋\n- 懐中電灯\n- 雨具"
    text = f"{FILLING}\n\n合宿に必要なもの{colon}\n{things}\n\n{FILLING}"
    assert things in passages(text, "合宿に必要なもの", bm25=10.0)[0].text


def test_the_text_under_a_heading_does_not_end_with_an_announcement(passages):
    comment = "The pump was replaced by a larger one, which takes more current. " * 5
    text = f"# The boiler fails\n\nIt stops at night.\n\n---\n\n**Anna** wrote:\n\n{comment}\n\n{FILLING}"
    best = passages(text, "boiler fails", bm25=10.0)[0].text
    assert best.endswith("It stops at night.")


def test_a_comment_in_code_is_no_heading(passages):
    text = f"# Database\n\n```python\n# Close it\nclose()\n```\n\nThe boiler is open.\n\n{FILLING}"
    assert passages(text, "boiler")[0].headings == ("Database",)


def test_code_that_holds_fences_ends_with_the_longer_fence_that_began_it(passages):
    code = "````md\n```sh\n# Close it\n```\n# Open it\n````"
    text = f"# Database\n\n{code}\n\n## Pump\n\nThe boiler is open.\n\n{FILLING}"
    assert passages(text, "boiler")[0].headings == ("Database", "Pump")


@pytest.mark.parametrize("heading", ["## Cause", "**Cause**", "Cause:"])
def test_sections_of_the_same_name_in_several_notes_are_all_shown(
    candidates_of, weigh, rank, heading
):
    causes = "The pump was old.", "Nobody knows.", "The pump was old.", "A valve leaked."
    notes = [
        candidates_of(
            f"# {number}\n\n{heading}\n\n{cause}\n\n## Later\n\nNothing.\n", file_id=number
        )
        for number, cause in enumerate(causes, 1)
    ]
    shown = [one.passage.text for one in rank([*chain(*notes)], weigh("cause"))]
    assert [sum(cause in text for text in shown) for cause in causes] == [1, 1, 1, 1]


def test_what_a_note_says_twice_in_the_same_words_is_shown_once_in_a_passage(passages):
    line = "- The boiler needs a membrane, and the supplier in the old town has none left."
    text = f"{line}\n\n{FILLING}\n\n{line}\n\n{FILLING}"
    assert passages(text, "boiler membrane")[0].text.count(line) == 1


@each(
    ("head", "told"),
    [
        ("Term of lease", ": The boiler is let for 45 hours."),
        ("Term of lease\n: In short, a time.", ": The boiler is let for 45 hours."),
        ("!!! warning", "    The boiler is let for 45 hours."),
        ("> [!WARNING]", "> The boiler is let for 45 hours."),
    ],
)
def test_a_definition_is_shown_below_its_term_and_a_warning_below_its_name(passages, head, told):
    text = f"{FILLING}\n\n{head}\n{told}\n\n{FILLING}"
    assert f"{head}\n{told}" in passages(text, "boiler")[0].text
    for one in passages(text, "filling lease warning"):
        for stretch in one.text.split(GAP):
            assert not stretch.endswith(head.split("\n")[0])


def test_the_first_text_below_each_line_is_found_through_headings_and_blank_lines(
    candidates_of, weigh
):
    (units,) = units_by_file(candidates_of("# a\n\n# b\ntext\nmore\n# c"), weigh("text")).values()
    layout = Layout(units)
    assert [layout.text_below(at) for at in range(6)] == [3, 3, 3, 4, None, None]


def test_the_time_to_find_the_text_below_many_headings_grows_with_their_number_only(
    candidates_of, weigh
):
    def cost(count: int) -> float:
        (units,) = units_by_file(candidates_of("# x\n" * count), weigh("x")).values()
        layout, begin = Layout(units), time.process_time()
        assert {layout.text_below(at) for at in range(count)} == {None}
        return time.process_time() - begin

    cost(1_000)
    least = max(cost(2_000), 0.002)
    # Other work on the machine adds to any of them.
    assert min(cost(20_000) for _ in range(3)) < 40 * least
