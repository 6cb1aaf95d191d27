"""The prompts that need no memory, in several languages, and the words of the others that are looked for."""

from __future__ import annotations

import json
from pathlib import Path

from fakes.each import each
from gateway.prompts import MOST_CHARS, read_prompt

NEEDLESS = json.loads(
    (Path(__file__).parents[2] / "data/prompts_without_need.json").read_text("utf-8")
)
CASES = [
    (kind, one) for kind in ("small_talk", "machine_output", "command") for one in NEEDLESS[kind]
]


@each(("kind", "prompt"), CASES)
def test_what_needs_no_memory_is_not_looked_for(kind, prompt):
    assert read_prompt(prompt).silence == kind


@each(
    "prompt",
    [
        "When is the boiler serviced?",
        "thanks, and who repaired the pump?",
        "Weiter mit der Heizung: wer war der Monteur?",
        "谢谢，锅炉什么时候检修？",
        "ボイラーの点検はいつですか",
        "보일러 점검은 언제예요?",
        "Спасибо! А когда чистят котёл?",
        "Oma's birthday?",
        "When is my next check-up?",
        "Which bin is next?",
        "Who is Ella?",
        "my shoe size?",
        "a828e60",
        "Anna",
        "/home/anna/notes/boiler.md is about what?",
        *NEEDLESS["other_subjects"],
    ],
)
def test_what_has_a_subject_is_looked_for_as_it_is(prompt):
    assert read_prompt(prompt).silence is None
    assert read_prompt(prompt).query == prompt


def test_of_a_question_about_a_pasted_trace_only_the_question_is_looked_for():
    trace = NEEDLESS["machine_output"][0]
    question = read_prompt(
        f"Did the nightly backup of the greenhouse ever fail like this?\n{trace}"
    )
    assert question.query == "Did the nightly backup of the greenhouse ever fail like this?"


def test_a_question_of_small_words_beside_pasted_lines_needs_two_others():
    trace = NEEDLESS["machine_output"][0]
    asked = "We get this since the migration of the boiler, what do we do about it?"
    assert read_prompt(f"{asked}\n{trace}").query == asked
    assert read_prompt(f"Why do we get this in the boiler?\n{trace}").silence == "machine_output"


def test_of_a_fenced_block_nothing_is_looked_for():
    question = read_prompt(
        "Who wrote the kettle script for the office?\n```sh\nboil --now pump\n```\n"
    )
    assert question.query.strip() == "Who wrote the kettle script for the office?"


@each(
    "log",
    [
        "Nov 28 10:00:01 kettle nginx[812]: GET /boiler 200",
        "[11:20:01] kernel: pump reset\n[11:20:02] kernel: pump lost",
        '{"level": "error", "text": "the boiler failed"}',
        '{"level":"error","text":"the boiler failed"}',
        "gcc: error: unrecognized option '-boiler'",
    ],
)
def test_logs_are_known_by_their_first_words(log):
    assert read_prompt(log).silence == "machine_output"
    assert read_prompt(f"{log}\n{ASKED}").query == ASKED


def test_what_a_client_writes_in_place_of_a_picture_or_a_long_text_is_not_looked_for():
    assert read_prompt("[Image #1]").silence == "small_talk"
    assert read_prompt("[Pasted text #2 +52 lines] fix this").silence == "small_talk"
    assert read_prompt("[Image #1] Is this the boiler?").query == "Is this the boiler?"


@each("prompt", ["who?", "and where is it?", "fix this", "the others", "und von wem?"])
def test_words_that_ask_or_request_are_no_subject(prompt):
    assert read_prompt(prompt).silence == "small_talk"


ASKED = "Who services the boiler in October, and what is the phone number?"


@each("end", ["\n", "\r\n", "\r"])
@each(
    "block",
    ["```\nlog\n```", "````md\n```\nlog\n```\n````", "~~~~\n~~~\nlog\n~~~~~", "``` log ```"],
)
def test_a_question_behind_a_block_is_looked_for_whatever_its_fences_and_line_ends(block, end):
    prompt = f"{block}\n{ASKED}".replace("\n", end)
    assert read_prompt(prompt).query.endswith(ASKED)
    assert read_prompt(f"{prompt}{end}```{end}more").query.endswith(ASKED)


def test_code_that_stands_alone_is_the_subject():
    assert read_prompt("def water(plants):\n    return None").silence is None


def test_a_long_prompt_is_looked_for_by_its_beginning_and_its_end():
    query = read_prompt(f"boiler {'and so on ' * 1000} pump").query
    assert len(query) == MOST_CHARS + 1
    assert query.startswith("boiler")
    assert query.endswith("pump")


def test_marks_without_end_take_no_longer_than_other_letters():
    """Half a million of them, in an order that has to be sorted, would not come to an end."""
    assert read_prompt("\u0301\u0316" * 250_000).silence == "small_talk"
    query = read_prompt("Who services the boiler? a" + "\u0301\u0316" * 250_000).query
    assert query.startswith("Who services the boiler?")
