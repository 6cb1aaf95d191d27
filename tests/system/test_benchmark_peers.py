"""The leaderboard: its figures, how they are kept and published, and how a peer is asked."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.peer_scoring import (
    HEADINGS,
    Asked,
    Leaderboard,
    Row,
    Shown,
    cut,
    publish,
    sampled,
    shown,
    summed,
)
from benchmarks.peers import Lines, PeerError, chunks, output_of
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


RIGHT, WRONG = Shown(True, True, 1.0, 4000), Shown(False, False, 0.0, 2000)


def row(name="heron", budget=RIGHT, **more):
    asked = [Asked(RIGHT, budget, 4.0), Asked(WRONG, budget, 6.0)]
    sizes = {"index_s": 1.5, "installed_mb": 20.2, "resident_mb": 45.4, "load": 1.0} | more
    return Row(name, summed(asked, **sizes), "a note")


@pytest.fixture
def board():
    board = Leaderboard.of(collections())
    board.rows = {
        "o": Row("otter", None, "not measured: no npm"),
        "w": row("wren", WRONG, load=9.0),
        "h": row(),
    }
    return board


def test_a_row_tells_shares_medians_and_sizes():
    assert row().cells() == [
        "heron", "0.500 / 0.500", "3,000", "1.000 / 1.000", "0.500", "4.0 ms", "1.5 s", "20 MB", "45 MB",
    ]  # fmt: skip


def test_a_system_without_a_process_or_files_of_its_own_has_dashes_for_them():
    assert row(installed_mb=0.0, resident_mb=0.0).cells()[-2:] == ["-", "-"]


def test_the_best_within_equal_characters_comes_first_and_what_was_not_measured_last(board):
    names = [line.split(" | ")[0] for line in board.table().splitlines()[2:]]
    assert names == ["| heron", "| wren", "| otter"]
    assert board.table().splitlines()[-1] == "| otter |" + " - |" * (len(HEADINGS) - 1)
    assert board.notes().splitlines()[-1] == "* otter: not measured: no npm"


def test_the_circumstances_tell_how_busy_the_machine_was(board):
    assert board.circumstances().startswith("10 questions, 20")
    assert "its load was 1 to 9 on" in board.circumstances()


def test_rows_are_kept_with_the_questions_that_they_answer(board, tmp_path):
    board.write(tmp_path / "kept.json")
    kept = Leaderboard.read(tmp_path / "kept.json")
    assert kept == board
    assert kept.sample == Leaderboard.of(sampled(collections(), 10)).sample
    assert kept.sample != Leaderboard.of(sampled(collections(), 9)).sample


def test_table_notes_and_plot_are_published_between_the_marks_and_again_in_their_place(
    board, tmp_path
):
    marked = "before\n<!-- leaderboard: scripts/bench_peers --publish -->\nold\n<!-- /leaderboard -->\nafter\n"
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/benchmarks.md"):
        (tmp_path / name).write_text(marked, encoding="utf-8")
    publish(board, tmp_path)
    once = (tmp_path / "README.md").read_text(encoding="utf-8")
    publish(board, tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == once
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert board.table() in once
    assert "old" not in once
    assert board.notes() in (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
    names = [one.text for one in ET.parse(tmp_path / "docs/peers.svg").getroot().iter()]
    assert "heron" in names
    assert "otter" not in names


def test_a_page_without_the_marks_is_not_changed(board, tmp_path):
    (tmp_path / "README.md").write_text("none", encoding="utf-8")
    with pytest.raises(ValueError, match="no place between"):
        publish(board, tmp_path)


def test_what_is_published_is_what_is_kept():
    root = Path(__file__).resolve().parents[2]
    board = Leaderboard.read(root / "docs/peers.json")
    assert board.table() in (root / "README.md").read_text(encoding="utf-8")
    assert board.notes() in (root / "docs/benchmarks.md").read_text(encoding="utf-8")


def python(code):
    return [sys.executable, "-c", code]


SILENT_WITH_A_CHILD = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
)


def test_a_peer_that_does_not_answer_in_time_is_ended_with_its_children():
    # It is left only when nobody holds the pipe any more.
    with (
        Lines(python(SILENT_WITH_A_CHILD), {}) as lines,
        pytest.raises(PeerError, match=r"did not answer within 0\.2 s"),
    ):
        lines.call({"method": "search"}, limit_s=0.2)


def test_a_peer_that_ends_instead_of_answering_is_quoted():
    with (
        Lines(python("raise SystemExit('no such model')"), {}) as lines,
        pytest.raises(PeerError, match="ended: no such model"),
    ):
        lines.call({"method": "search"})


def test_a_peer_is_asked_by_lines_and_its_notices_are_passed_over():
    answering = 'input(); print(\'{"method": "notice"}\\n{"result": 7}\', flush=True)'
    with Lines(python(answering), {}) as lines:
        assert lines.call({"method": "search"}) == 7


def test_a_command_that_does_not_end_in_time_is_ended_with_its_children():
    with pytest.raises(PeerError, match=r"did not end within 0\.2 s"):
        output_of(python(SILENT_WITH_A_CHILD), {}, limit_s=0.2)


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
