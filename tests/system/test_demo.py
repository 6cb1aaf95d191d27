"""The demo: a real gateway answers questions about the sample, and the user's files are not touched."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from drawing.demo import PICTURE, draw, record
from gateway.sample import QUESTIONS
from gateway.version import VERSION

ROOT = Path(__file__).parents[2]
WAIT_S = 60


@pytest.fixture
def demo(home, tmp_path):
    """Runs the demo in a home whose own configuration would stop it, if it were read."""
    (home.root / ".openclaw").mkdir()
    (home.root / ".openclaw/openclaw.json").write_text("{ broken", encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = home.environment | {
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
        "TMPDIR": str(scratch),
        "OPENCLAW_CONFIG_PATH": str(home.root / "missing.json"),
    }

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "gateway", "demo", *arguments],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT_S,
            check=False,
        )
        assert list(scratch.iterdir()) == [], "something was left behind"
        assert sorted(path.name for path in (home.root / ".openclaw").iterdir()) == [
            "openclaw.json"
        ]
        return done

    return run


def test_the_demo_finds_every_answer_also_what_was_just_written(demo):
    done = demo()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("; found)") == 6
    assert "NOT FOUND" not in done.stdout
    assert "17:45 | singers in the vestry" in done.stdout
    assert "memory/2026-01-17.md#L" in done.stdout
    assert done.stdout.count(" 53 of 53 files\n") == 1
    assert done.stdout.count("The spare key of the greenhouse now hangs") == 2
    assert "\x1b" not in done.stdout


def test_the_demo_shows_the_log_of_its_gateway_when_asked(demo):
    done = demo("--log-level", "info")
    assert done.returncode == 0
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert (events[0], events[-1]) == ("serving", "ended")


def test_the_demo_ends_as_other_commands_do_when_nobody_reads_on(home):
    """`demo | head -1` is such a case. The next line is one of progress, while it waits for an answer."""
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "demo"], env=home.environment | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        assert "serves a copy" in process.stdout.readline()
        process.stdout.close()
        assert (process.wait(WAIT_S), process.stderr.read()) == (141, "")


def test_the_demo_as_json_is_the_transcript_of_requests_and_replies(demo):
    done = demo("--json")
    assert (done.returncode, done.stderr) == (0, "")
    transcript = json.loads(done.stdout)
    methods = [exchange["method"] for exchange in transcript["exchanges"]]
    assert transcript["complete"] is True
    assert methods == ["initialize", "sync", *["memory_search"] * 6, "status"]
    assert all({"params", "result", "ms"} <= set(exchange) for exchange in transcript["exchanges"])


def shown(svg):
    """Returns the text of the picture, row by row."""
    pieces = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return html.unescape("".join(pieces)).replace("\xa0", " ")


@pytest.fixture(scope="module")
def drawn():
    return draw(record())


def test_the_picture_of_the_demo_shows_what_a_run_told(drawn):
    ET.fromstring(drawn)
    text = shown(drawn)
    assert text.count("; found)") == 6
    assert all(one.query in text and one.expected in text for one in QUESTIONS)


def test_the_picture_loads_nothing_and_fits_a_screen(drawn):
    assert "@font-face" not in drawn
    assert "url(h" not in drawn
    assert "<script" not in drawn
    assert len(set(re.findall(r'<text class="[^"]*" x="[^"]*" y="([^"]*)"', drawn))) <= 50


def test_the_picture_in_the_readme_is_one_of_this_demo():
    text = shown(PICTURE.read_text(encoding="utf-8"))
    assert text.count("; found)") == 6, "run ./scripts/draw_demo"
    assert all(one.query in text for one in QUESTIONS)
    assert VERSION in text
