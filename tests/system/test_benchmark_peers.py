"""The pure part of the leaderboard, and the baseline's chunks."""

from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.peer_scoring import HEADINGS, Asked, Measured, Shown, cut, markdown, sampled, shown
from benchmarks.peers import chunks
from benchmarks.plot import bars
from benchmarks.questions import Collection, Evidence, Question

HERON = Evidence("memory/a.md", 1, 1, "- The heron nests by the pond.")
OTTER = Evidence("memory/b.md", 4, 4, "- The otter sleeps at noon.")


def question(*evidence):
    return Question("Where are they?", "single-hop", "en", evidence)


def test_evidence_is_shown_where_its_whole_line_stands_whatever_the_white_space():
    page = ["nothing", "7: -  The heron\nnests by the pond."]
    assert shown(question(HERON, OTTER), page) == Shown(True, False, 0.5, sum(map(len, page)))


def test_evidence_of_which_the_end_is_cut_off_is_not_shown():
    assert shown(question(HERON), ["- The heron nests by the"]) == Shown(False, False, 0.0, 24)


def test_all_is_shown_only_when_every_line_is():
    page = [HERON.text, OTTER.text]
    assert shown(question(HERON, OTTER), page)[:3] == (True, True, 1.0)


def test_an_empty_page_shows_nothing():
    assert shown(question(HERON), []) == Shown(False, False, 0.0, 0)


def test_the_budget_is_spent_in_order_and_cuts_the_last_passage():
    assert cut(["aaaa", "bbbb", "cccc"], 6) == ["aaaa", "bb"]
    assert cut(["aaaa", "bbbb"], 4) == ["aaaa"]
    assert cut(["aaaa"], 40) == ["aaaa"]


def collections():
    sizes = {"one": 7, "two": 3}
    return [
        Collection(
            name,
            Path(name),
            tuple(Question(f"{name} {n}", "g", "en", ()) for n in range(size)),
        )
        for name, size in sizes.items()
    ]


def test_a_sample_is_spread_over_all_questions_and_always_the_same():
    asked = [[one.query for one in each.questions] for each in sampled(collections(), 4)]
    assert asked == [["one 0", "one 2", "one 5"], ["two 0"]]
    assert sampled(collections(), 4) == sampled(collections(), 4)


def test_a_sample_as_large_as_the_whole_is_the_whole():
    assert sampled(collections(), 10) == collections() == sampled(collections(), None)


def test_a_workspace_without_a_question_in_the_sample_is_left_out():
    assert [one.name for one in sampled(collections(), 1)] == ["one"]


def test_the_table_tells_shares_medians_sizes_and_notes():
    right, wrong = Shown(True, True, 1.0, 4000), Shown(False, False, 0.0, 2000)
    asked = [Asked(right, right, 4.0), Asked(wrong, right, 6.0)]
    table = markdown([Measured("heron", asked, 1.5, 20.2, 45.4, "a note")])
    assert table.splitlines()[2:] == [
        "| heron | 0.500 / 0.500 | 3,000 | 1.000 / 1.000 | 0.500 | 4.0 ms | 1.5 s | 20 MB | 45 MB |",
        "",
        "* heron: a note",
    ]


def test_a_peer_that_could_not_be_measured_has_dashes_and_a_reason():
    table = markdown([Measured("otter", [], 0, 0, 0, "not measured: no npm")]).splitlines()
    assert table[2] == "| otter |" + " - |" * (len(HEADINGS) - 1)
    assert table[-1] == "* otter: not measured: no npm"


def test_chunks_of_the_baseline_are_whole_lines_up_to_their_size():
    text = "".join(f"- line {n} of the day\n" for n in range(20))
    cut_up = list(chunks(text, 60))
    assert "".join(cut_up) == text
    assert all(len(chunk) <= 60 and chunk.endswith("\n") for chunk in cut_up)


def test_a_line_longer_than_a_chunk_is_cut_to_it():
    assert list(chunks("a" * 30 + "\nb\n", 20)) == ["a" * 20, "b\n"]


def test_bars_are_as_long_as_their_shares(tmp_path):
    bars(tmp_path / "peers.svg", {"heron & co": (0.8, 0.4)}, title="Shown", names=("any", "all"))
    picture = ET.parse(tmp_path / "peers.svg").getroot()
    widths = [float(one.get("width")) for one in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[-2] == 2 * widths[-1]
    assert "heron & co" in [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
