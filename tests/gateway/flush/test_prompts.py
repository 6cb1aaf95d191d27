"""The text of a flush for the agent."""

from datetime import date

import pytest

from config.settings import MemoryFlushSettings
from fakes.each import each
from gateway.flush import flush_prompts

TODAY = date(2026, 2, 8)
LOG = "memory/2026-02-08.md"


def test_our_texts_name_the_real_file_of_today_and_the_silent_reply():
    prompts = flush_prompts(MemoryFlushSettings(), TODAY, LOG)
    assert "memory/2026-02-08.md" in prompts.prompt
    assert "never overwrite" in prompts.prompt
    assert "NO_REPLY" in prompts.prompt
    assert "NO_REPLY" in prompts.system_prompt
    assert "YYYY" not in prompts.prompt + prompts.system_prompt


@each(
    ("log", "folder"),
    [(LOG, "memory/"), ("journals/2026_02_08.md", "journals/"), ("2026-02-08.md", "it")],
)
def test_our_text_names_the_folder_of_the_log(log, folder):
    prompt = flush_prompts(MemoryFlushSettings(), TODAY, log).prompt
    assert f"into {log} now" in prompt and f"Create {folder} if it is missing" in prompt


def test_configured_texts_get_the_real_date():
    settings = MemoryFlushSettings(prompt="Write memory/YYYY-MM-DD.md or NO_REPLY.")
    assert flush_prompts(settings, TODAY, LOG).prompt == "Write memory/2026-02-08.md or NO_REPLY."


@pytest.mark.parametrize("field", ["prompt", "system_prompt"])
def test_a_configured_text_that_lacks_the_silent_reply_gets_it(field):
    prompts = flush_prompts(MemoryFlushSettings(**{field: "Save it."}), TODAY, LOG)
    text = getattr(prompts, field)
    assert text.startswith("Save it.\n\n")
    assert text.count("NO_REPLY") == 1


def test_braces_in_a_configured_text_are_left_alone():
    settings = MemoryFlushSettings(prompt='Write {"log": 1} NO_REPLY')
    assert flush_prompts(settings, TODAY, LOG).prompt == 'Write {"log": 1} NO_REPLY'
