"""The files that a new session loads, and those that it does not."""

import pytest

from backends.files.reading import read_lines
from backends.files.roots import MemoryRoots
from fakes.each import each
from gateway.session_start import MAX_CHARS, lasting_parts, load, log_parts

pytestmark = pytest.mark.anyio
LOGS = log_parts("memory/2026-02-08.md", "memory/2026-02-07.md")


@pytest.fixture
def write(tmp_path):
    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    return write


@pytest.fixture
def start(tmp_path):
    async def read(request):
        return read_lines(MemoryRoots(tmp_path), request)

    async def start(key="agent:main:main", chat=None):
        return {file.role: file for file in await load((*lasting_parts(key, chat), *LOGS), read)}

    return start


@each(
    ("key", "chat", "loads_long_term"),
    [
        ("agent:main:main", None, True),
        ("agent:main:main", "direct", True),
        ("Agent:Main:MAIN", None, True),
        ("main", None, True),
        ("agent:main:main:thread:17", None, True),
        ("agent:main:main", "group", False),
        ("agent:main:main", "channel", False),
        ("agent:main:telegram:group:-1", "direct", False),
        ("agent:main:telegram:group:-1", None, False),
        ("agent:main:discord:channel:9", None, False),
        ("agent:main:telegram:direct:anna", None, False),
        ("agent:main:subagent:x", None, False),
        ("agent:main:main:heartbeat", None, False),
        ("cron:daily", None, False),
        ("hook:mail", None, False),
        ("agent:main", None, False),
        ("", None, False),
        ("agent:main:mainly", None, False),
    ],
)
async def test_long_term_memory_is_for_the_main_private_session_only(key, chat, loads_long_term):
    roles = [part.role for part in lasting_parts(key, chat)]
    assert roles == (["longterm", "user"] if loads_long_term else [])


async def test_the_logs_of_today_and_yesterday_and_the_long_term_memory_are_loaded(write, start):
    write("MEMORY.md", "# Memory\n")
    write("USER.md", "# User\n")
    write("memory/2026-02-08.md", "today\n")
    write("memory/2026-02-07.md", "yesterday\n")
    write("memory/2026-02-06.md", "too old\n")
    files = await start()
    assert [(file.path, file.status, file.text) for file in files.values()] == [
        ("MEMORY.md", "ok", "# Memory\n"),
        ("USER.md", "ok", "# User\n"),
        ("memory/2026-02-08.md", "ok", "today\n"),
        ("memory/2026-02-07.md", "ok", "yesterday\n"),
    ]


async def test_the_lower_case_name_stands_in_for_a_missing_one(write, start):
    write("memory.md", "lower\n")
    assert (await start())["longterm"].path == "memory.md"
    write("MEMORY.md", "upper\n")
    assert (await start())["longterm"].text == "upper\n"


async def test_what_is_missing_says_so(start):
    assert {role: file.status for role, file in (await start()).items()} == {
        "longterm": "not_found", "user": "not_found", "today": "not_found", "yesterday": "not_found",
    }  # fmt: skip


async def test_a_link_is_not_followed_and_costs_the_others_nothing(write, start, tmp_path):
    write("memory/2026-02-08.md", "today\n")
    (tmp_path / "MEMORY.md").symlink_to(tmp_path / "memory/2026-02-08.md")
    files = await start()
    assert files["longterm"].status == "error"
    assert "not allowed" in files["longterm"].error
    assert files["today"].text == "today\n"


async def test_a_huge_log_is_loaded_with_its_end(write, start):
    text = "".join(f"- entry {number}\n" for number in range(10_000))
    write("memory/2026-02-08.md", text)
    file = (await start())["today"]
    assert file.truncated
    assert file.chars == len(text)
    assert len(file.text) < MAX_CHARS + 200
    assert file.text.endswith("- entry 9999\n")
    assert file.left_out_from > 1
    assert file.left_out_to < 10_000


async def test_the_end_of_a_file_of_many_megabytes_is_found(write, start):
    text = "".join(f"- entry {number}\n" for number in range(1, 300_001))
    write("memory/2026-02-08.md", text)
    file = (await start())["today"]
    assert file.text.endswith("- entry 300000\n")
    assert file.text.partition(" ...]\n\n")[2].startswith(f"- entry {file.left_out_to + 1}\n")
    assert file.chars == len(text)
