"""The leaderboard: its figures, how they are kept and published, and how a peer is asked."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.peer_scoring import (
    Asked,
    Board,
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


def test_evidence_is_shown_where_it_stands_in_one_passage_whatever_the_white_space():
    page = ["nothing", "7: -  The heron\nnests by the pond."]
    assert shown(question(HERON, OTTER), page) == Shown(True, False, 0.5, sum(map(len, page)))


def test_evidence_of_which_the_end_is_cut_off_is_not_shown():
    assert shown(question(HERON), ["- The heron nests by the"]) == Shown(False, False, 0.0, 24)


def test_of_evidence_by_lines_any_of_them_will_do():
    lines = Evidence("memory/pt.md", 3, 4, None, "A garça dorme.\n\nA lontra nada.")
    assert shown(question(lines), ["- A lontra nada."]).any
    assert not shown(question(lines), ["A lontra"]).any


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


def test_a_sample_may_be_of_the_first_workspaces_alone():
    assert [one.name for one in sampled(collections(), None, 1)] == ["one"]
    assert [len(one.questions) for one in sampled(collections(), 4, 1)] == [4]


def test_a_workspace_without_a_question_in_the_sample_is_left_out():
    assert [one.name for one in sampled(collections(), 1)] == ["one"]


RIGHT, WRONG = Shown(True, True, 1.0, 4000), Shown(False, False, 0.0, 2000)


def row(name="heron", budget=RIGHT, **more):
    asked = [Asked(RIGHT, budget, 4.0), Asked(WRONG, budget, 6.0)]
    sizes = {"index_s": 1.5, "installed_mb": 20.2, "resident_mb": 45.4, "load": 1.0} | more
    return Row(name, summed(asked, **sizes), "a note")


@pytest.fixture
def board():
    ponds, woods = Board.of(collections()), Board.of(sampled(collections(), 4))
    silent = Row("otter", None, "not measured: no npm")
    ponds.rows = {"o": silent, "w": row("wren", WRONG, load=9.0), "h": row()}
    woods.rows = {"o": silent, "h": row(index_s=2.5, resident_mb=60.0), "w": row("wren")}
    return Leaderboard({"ponds": ponds, "woods": woods})


def cells(table):
    return [line.strip("| ").split(" | ") for line in table.splitlines() if "---" not in line]


def test_each_family_weighs_the_same_and_the_best_of_each_is_bold(board):
    assert cells(board.table()) == [
        ["system", "mean of families", "ponds (10)", "woods (4)"],
        ["heron", "**1.000 / 1.000**", "**1.000 / 1.000**", "**1.000 / 1.000**"],
        ["wren", "0.500 / 0.500", "0.000 / 0.000", "**1.000 / 1.000**"],
        ["otter", "-", "-", "-"],
    ]


def test_what_was_not_measured_on_every_family_has_no_mean_and_comes_last(board):
    del board.families["woods"].rows["h"]
    assert [one[:2] for one in cells(board.table())[1:]] == [
        ["wren", "**0.500 / 0.500**"], ["heron", "-"], ["otter", "-"],
    ]  # fmt: skip


def test_what_it_takes_is_of_all_families(board):
    assert cells(board.what_it_takes())[1] == [
        "heron", "0.500 / 0.500", "3,000", "4.0 ms", "4.0 s", "20 MB", "60 MB",
    ]  # fmt: skip
    assert len(cells(board.what_it_takes())) == 3, "nothing is told of what was not measured"
    assert board.notes().splitlines()[-1] == "* otter: not measured: no npm"


def test_a_system_without_a_process_or_files_of_its_own_has_dashes_for_them():
    alone = Board.of(collections())
    alone.rows = {"h": row(installed_mb=0.0, resident_mb=0.0)}
    assert cells(Leaderboard({"ponds": alone}).what_it_takes())[1][-2:] == ["-", "-"]


def test_the_circumstances_tell_how_busy_the_machine_was(board):
    assert board.circumstances().startswith("14 questions, 20")
    assert "its load was 1 to 9 on" in board.circumstances()


def test_rows_are_kept_with_the_questions_that_they_answer(board, tmp_path):
    board.write(tmp_path / "kept.json")
    kept = Leaderboard.read(tmp_path / "kept.json")
    assert kept == board
    assert kept.families["ponds"].sample == Board.of(sampled(collections(), 10)).sample
    assert kept.families["ponds"].sample != Board.of(sampled(collections(), 9)).sample


def test_table_notes_and_plot_are_published_between_the_marks_and_again_in_their_place(
    board, tmp_path
):
    marked = "before\n<!-- leaderboard: scripts/bench peers --publish -->\nold\n<!-- /leaderboard -->\nafter\n"
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
    benchmarks = (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert board.what_it_takes() in benchmarks
    assert board.notes() in benchmarks
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
    # The `with` block ends only when nobody has the pipe open any more.
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
