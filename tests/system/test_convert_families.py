"""Families of notes from the files of public repositories; the records here are made up in their form."""

import json

import pytest

from benchmarks.converters import beam, main, realmem, realtalk
from benchmarks.questions import conversations

CHAT = {
    "name": {"speaker_1": "Ada", "speaker_2": "Bo"},
    "session_2": [
        {"clean_text": "The pears\nare ripe.", "speaker": "Ada", "date_time": "02.01.2024, 08:30:00", "dia_id": "D2:1"},
        {"clean_text": "Look!", "speaker": "Bo", "dia_id": "D2:2", "blip_caption": "a bowl of pears"},
    ],
    "session_1": [{"clean_text": "Good evening", "speaker": "Bo", "dia_id": "D1:1"}],
    "session_1_date_time": "01.01.2024, 21:05:00",
    "session_2_date_time": "02.01.2024, 08:30:00",
    "events_session_1": {"agent_a": []},
    "qa": [
        {"question": "What is ripe?", "answer": "Pears", "evidence": ["D2:1; D2:2"], "category": 1},
        {"question": "Who left?", "answer": "Nobody", "evidence": ["D9:9"], "category": 3},
    ],
}  # fmt: skip


def written(tmp_path, made):
    notes, questions = made
    notes.write(tmp_path / "conv-1", questions)
    files = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted((tmp_path / "conv-1" / "memory").iterdir())
    }
    (collection,) = conversations(tmp_path)
    return files, collection.questions


def test_a_chat_becomes_a_note_a_day_and_a_bullet_a_message(tmp_path):
    files, questions = written(tmp_path, realtalk(CHAT))
    assert files == {
        "2024-01-01.md": "# 2024-01-01\n\n## 21:05\n\n- Bo: Good evening\n",
        "2024-01-02.md": (
            "# 2024-01-02\n\n## 08:30\n\n"
            "- Ada: The pears are ripe.\n- Bo: Look! [shared a bowl of pears]\n"
        ),
    }
    (asked,) = questions
    assert [one[:4] for one in asked.evidence] == [
        ("memory/2024-01-02.md", 5, 5, "Ada: The pears are ripe."),
        ("memory/2024-01-02.md", 6, 6, "Bo: Look! [shared a bowl of pears]"),
    ]


def session(day, identifier, memories=(), turns=()):
    return {
        "session_identifier": identifier,
        "session_uuid": f"uuid-{day}",
        "current_time": f"{day} (Monday)",
        "extracted_memory": [{"index": "x", "type": "Dynamic", "content": one} for one in memories],
        "dialogue_turns": list(turns),
    }


def query(content, *used):
    yield {
        "speaker": "User",
        "content": content,
        "is_query": True,
        "query_id": "Q1",
        "category_name": "Dynamic Updating",
    }
    memory_used = [{"session_uuid": "u", "content": one} for one in used]
    yield {"speaker": "Assistant", "content": "So", "is_query": False, "memory_used": memory_used}


PERSON = {
    "_metadata": {"person_name": "Ada_Test"},
    "dialogues": [
        session("2026-01-02", "Literary_Creation_2:S1_01", ["【Outline】 The heron\nleaves.", "User likes ponds."]),
        session("2026-01-03", "Enhanced:S10001", turns=[{"speaker": "User", "content": "Hi", "is_query": False}]),
        session("2026-01-04", "Literary_Creation_2:S1_02", ["【Outline】 The heron leaves."],
                query(" Where were we? ", "The heron leaves.", "Never noted.")),
        session("2026-01-05", "Fitness_1:S1_01", ["Runs on Monday."], query("And now?", "Runs on Monday.")),
        session("2026-01-06", "Fitness_1:S1_02", turns=query("Still?", "【Outline】 The heron leaves.")),
    ],
}  # fmt: skip


def test_what_an_agent_noted_stands_below_its_topic_on_its_day(tmp_path):
    files, questions = written(tmp_path, realmem(PERSON))
    assert files["2026-01-02.md"] == (
        "# 2026-01-02\n\n## Literary Creation\n\n- 【Outline】 The heron leaves.\n- User likes ponds.\n"
    )
    assert list(files) == ["2026-01-02.md", "2026-01-04.md", "2026-01-05.md"]
    first, last = questions
    assert (first.query, first.group, first.before) == (
        "Where were we?",
        "Dynamic Updating",
        "2026-01-04",
    )
    assert [one[:4] for one in first.evidence] == [
        ("memory/2026-01-02.md", 5, 5, "【Outline】 The heron leaves."),
    ]
    assert last.query == "Still?", "what was noted on the same day is no evidence"
    assert last.evidence[0].path == "memory/2026-01-04.md", "the latest of what was noted twice"


BATCHES = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-05-2024", "index": "1,1",
                 "content": "I save pears. \n\n```py\nx = 1\n\ny = 2\n``` ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "Good.\n\n### Step\n- dry them"},
            ],
            [{"role": "user", "id": 2, "content": "Thanks ->-> 1,2"}],
        ],
    },
    {"batch_number": 2, "turns": [[{"role": "user", "id": 3, "time_anchor": "April-01-2024",
                                     "content": "They are dry."}]]},
]  # fmt: skip
PROBING = {
    "abstention": [{"question": "Which bank?"}],
    "knowledge_update": [
        {"question": "Are they dry?", "source_chat_ids": {"original_info": [0], "updated_info": [3]}},
    ],
    "information_extraction": [{"question": "What next?", "source_chat_ids": [1, 1]}],
    "summarization": [{"question": "All of it?", "source_chat_ids": [0, 1]}],
}  # fmt: skip


def test_long_answers_keep_their_markdown_a_paragraph_a_line(tmp_path):
    files, questions = written(tmp_path, beam(BATCHES, PROBING))
    assert files["2024-03-05.md"].split("\n") == [
        "# 2024-03-05", "", "## Session 1", "",
        "User: I save pears. ", "```py", "x = 1", "y = 2", "```", "",
        "Assistant: Good.", "### Step", "- dry them", "",
        "User: Thanks", "",
    ]  # fmt: skip
    assert [(one.query, [each[:4] for each in one.evidence]) for one in questions] == [
        ("Are they dry?", [("memory/2024-03-05.md", 5, 5, "I save pears. "),
                           ("memory/2024-04-01.md", 5, 5, "They are dry.")]),
        ("What next?", [("memory/2024-03-05.md", 11, 11, "Good.")]),
    ]  # fmt: skip


@pytest.fixture
def checkouts(tmp_path):
    """The directory with the files of each repository."""
    for path, content in {
        "realtalk/data/Chat_7_Ada_Bo.json": CHAT,
        "realmem/dataset/Ada_Test_dialogues_256k.json": json.loads(
            json.dumps(PERSON, default=list)
        ),
        "beam/chats/100K/3/chat.json": BATCHES,
        "beam/chats/100K/3/probing_questions/probing_questions.json": PROBING,
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["convert_families", *map(str, arguments)])
    main()


def test_checkouts_become_a_directory_that_the_benchmark_takes(checkouts, monkeypatch, tmp_path):
    target = tmp_path / "families"
    named = [
        each for name in ("realtalk", "realmem", "beam") for each in (f"--{name}", checkouts / name)
    ]
    run(monkeypatch, target, *named)
    assert sorted(str(one.relative_to(target)) for one in target.glob("*/*")) == [
        "beam/conv-3", "realmem/conv-Ada_Test", "realtalk/conv-7",
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        run(monkeypatch, target, *named)


def test_a_directory_without_the_files_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path / "families", "--realtalk", tmp_path)
    assert "has none of the files of danny911kr/REALTALK" in capsys.readouterr().err
