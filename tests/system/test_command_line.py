"""The real command in a real process: streams, exit codes, terminals, mistakes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from fakes.hub import FakeHub, model_bytes

ROOT = Path(__file__).parents[2]
WAIT_S = 120


class Shell:
    """Runs `memory-gateway` on one home, from an unrelated directory."""

    def __init__(self, home, directory):
        self.home = home
        self.directory = directory
        self.environment = home.environment | {"PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}

    def command(self, name, *arguments):
        return [sys.executable, "-m", "gateway", *name.split(), *self.home.arguments, *arguments]

    def run(self, name, *arguments, **environment):
        """Returns the finished process of a command on this home."""
        return self.run_bare(*self.command(name, *arguments)[3:], **environment)

    def run_bare(self, *arguments, **environment):
        """Returns the finished process of a command line without anything added."""
        return subprocess.run(
            [sys.executable, "-m", "gateway", *arguments],
            env=self.environment | environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT_S,
            check=False,
        )

    def start(self, name, *arguments, **streams):
        return subprocess.Popen(
            self.command(name, *arguments),
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            **streams,
        )

    def on_terminal(self, name, *arguments, stream, **environment):
        """Returns what a command writes to `stream` when that is a terminal. `name` may be two words."""
        ours, theirs = pty.openpty()
        other = "stdout" if stream == "stderr" else "stderr"
        process = subprocess.Popen(
            self.command(name, *arguments),
            env=self.environment | {"TERM": "xterm-256color"} | environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            **{stream: theirs, other: subprocess.DEVNULL},
        )
        os.close(theirs)
        shown = read_terminal(ours)
        assert process.wait(WAIT_S) == 0
        return shown


def read_terminal(descriptor):
    data = b""
    deadline = time.monotonic() + WAIT_S
    while select.select([descriptor], [], [], deadline - time.monotonic())[0]:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # on Linux this means that nobody has the terminal open any more
            break
        if not piece:
            break
        data += piece
    os.close(descriptor)
    return data.decode()


@pytest.fixture
def shell(home, tmp_path):
    return Shell(home, tmp_path)


def test_each_command_keeps_data_apart_from_messages_and_ends_with_its_code(shell):
    """The details of every command are tested in one process; this test is about the way out of it."""
    shell.home.write("memory/tea.md", "# 茶\n\n- Oolong.\n")
    (shell.home.workspace / "memory/link.md").symlink_to("/etc/hostname")
    for arguments, code, out, err in [
        (["index"], 0, "5 files in ", "Skipped memory/link.md: "),
        (
            ["search", "xylophone"],
            1,
            "No matches. Searched 5 files",
            "Note: Only words were compared",
        ),
        (["get", "memory/tea.md"], 0, "# 茶\n\n- Oolong.", ""),
        (["get", "memory/none.md"], 66, "", "memory-gateway: There is no file memory/none.md."),
        (["get", "/etc/passwd"], 77, "", "memory-gateway: Reading '/etc/passwd' is not allowed."),
        (["health"], 0, "ok\n", ""),
        (["search", "--nonsense"], 64, "", "memory-gateway: No such option: --nonsense"),
        (["index", "--config", "none.json"], 78, "", "memory-gateway: There is no "),
    ]:
        done = shell.run(*arguments)
        assert done.returncode == code, arguments
        assert (done.stdout.startswith(out), bool(done.stdout)) == (True, bool(out)), arguments
        assert (done.stderr.startswith(err), bool(done.stderr)) == (True, bool(err)), arguments


def test_serve_that_cannot_start_says_why_on_standard_error_only(shell):
    (shell.home.state / "memory").write_text("in the way", encoding="utf-8")
    done = shell.run("serve")
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("memory-gateway: ")
    assert str(shell.home.state) in done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_utf_8_whatever_the_locale(shell):
    shell.home.write("memory/tea.md", "# 茶 😀\n")
    done = shell.run("search", "茶", "--json", LANG="C", LC_ALL="C", PYTHONIOENCODING="ascii")
    snippets = [result["snippet"] for result in json.loads(done.stdout)["results"]]
    assert any(snippet.startswith("# 茶 😀") for snippet in snippets)


def test_text_that_the_locale_cannot_show_is_escaped_rather_than_fatal(shell):
    shell.home.write("memory/tea.md", "# 茶\n")
    done = shell.run("search", "茶", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "# \\u8336" in done.stdout


def test_the_progress_bar_moves_on_a_terminal_and_leaves_no_trace(shell):
    shown = shell.on_terminal("index", stream="stderr")
    assert "Indexing" in shown
    assert "4/4" in shown
    assert shown.endswith(("\x1b[2K", "\x1b[?25h\r\x1b[1A\x1b[2K", "\x1b[2K\x1b[?25h\r", "\x1b[0m"))


def test_a_download_shows_a_bar_with_size_and_speed(shell):
    with FakeHub({"org/repo/m.gguf": model_bytes(2_000_000)}, bytes_per_s=4_000_000) as hub:
        shown = shell.on_terminal(
            "models pull", "hf:org/repo/m.gguf", stream="stderr", **hub.environment
        )
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert re.search(r"m\.gguf ━+ .*/2\.0 MB .* [kM]B/s", plain)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_there_is_no_progress_bar_on_a_terminal_that_cannot_move(shell, term):
    assert shell.on_terminal("index", stream="stderr", TERM=term) == ""


def test_a_progress_bar_without_colour_still_moves(shell):
    shown = shell.on_terminal("index", stream="stderr", NO_COLOR="1")
    assert "4/4" in shown
    assert not re.search(r"\x1b\[[0-9;]*m", shown)


def test_matches_stand_out_on_a_terminal_only(shell):
    marked = "\x1b[1;33mboiler\x1b[0m"
    assert marked in shell.on_terminal("search", "boilers", stream="stdout")
    assert "\x1b" not in shell.run("search", "boilers").stdout


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_without_colour_gets_no_escape_sequence_at_all(shell, environment):
    shown = shell.on_terminal("search", "boilers", stream="stdout", **environment)
    assert "boiler" in shown
    assert "\x1b" not in shown


def test_a_reader_that_goes_away_ends_the_command_quietly(shell):
    process = shell.start("config", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(WAIT_S) == 141


def test_an_output_that_is_closed_from_the_start_does_no_harm(shell):
    line = " ".join(shell.command("status"))
    done = subprocess.run(
        ["sh", "-c", f"{line} >&-"],
        env=shell.environment,
        cwd=shell.directory,
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_ends_a_command_quietly_with_130(shell):
    shell.home.config.unlink()
    os.mkfifo(shell.home.config)
    process = shell.start("status", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with shell.home.config.open("w", encoding="utf-8"):  # succeeds once the command reads from it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out, err) == (130, b"", b"")


WAITS_IN_AN_IMPORT = """
import sys

class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("importing", flush=True)
            try:
                sys.stdin.readline()
            except KeyboardInterrupt:
                print("went on", flush=True)
                raise

sys.meta_path.insert(0, Waiting())
"""


@pytest.fixture(params=["gateway.__main__", "gateway.cli.guard", "gateway.tools.search"])
def importing(shell, request):
    """A command whose import of one module lasts until it reads a line, and what starts it first."""
    (shell.directory / "sitecustomize.py").write_text(
        WAITS_IN_AN_IMPORT.format(module=request.param), encoding="utf-8"
    )
    run = "import sys, memory_gateway; sys.exit(memory_gateway.main())"
    environment = shell.environment | {"PYTHONPATH": f"{shell.directory}:{ROOT}"}

    def start(*before):
        process = subprocess.Popen(
            [*before, sys.executable, "-c", run, *shell.command("search", "kettle")[3:]],
            env=environment,
            cwd=shell.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        return process

    return start


def test_an_interrupt_in_an_import_ends_the_command_at_once(importing):
    process = importing()
    assert process.communicate(timeout=WAIT_S) == ("", "")
    assert process.returncode == 130


def test_a_command_in_the_background_is_not_interrupted_in_an_import(importing):
    process = importing("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    out, err = process.communicate("\n", timeout=WAIT_S)
    assert (process.returncode, out[:10]) == (1, "No matches"), err


def test_the_version_is_one_line(shell):
    done = shell.run_bare("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"memory-gateway \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_completion_script_is_written_for_every_usual_shell(shell, name):
    done = shell.run_bare(
        "--show-completion", name, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "_MEMORY_GATEWAY_COMPLETE=complete_" in done.stdout
    assert "memory-gateway" in done.stdout


def test_commands_options_and_choices_are_completed(shell):
    for words, completions in [
        ("memory-gateway s", {"schema", "serve", "search", "service", "setup", "status", "store"}),
        ("memory-gateway search --source ", {"memory", "sessions"}),
        ("memory-gateway search --max", {"--max-results"}),
        ("memory-gateway index --log-level w", {"warning"}),
    ]:
        done = shell.run_bare(
            _MEMORY_GATEWAY_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert set(done.stdout.split()) == completions, words


LOADED = (
    "import sys\nfrom gateway.cli.entry import run\ncode = run(sys.argv[1:])\n"
    "print(*sys.modules, code, file=sys.__stderr__)"
)
"""Runs a command line and prints which modules were imported."""
NOT_AT_THE_START = {
    *("typer", "rich", "pygments", "attr", "prometheus_client", "numpy", "pydantic"),
    *("structlog", "zoneinfo", "backends.redaction", "backends.qmd", "openai", "difflib"),
    *("gateway.mcp", "gateway.flush", "gateway.ownership.bridge"),
    *("backends.chunking.chunker", "backends.chunking.chunker", "backends.transcripts.host"),
    *("backends.transcripts.jsonl", "backends.transcripts.turns"),
    *("providers.embedding.service", "providers.remote.embedder"),
    "backends.builtin.embedding.backfill",
}
NOT_FOR_A_QUESTION = NOT_AT_THE_START | {
    *("gateway.agent.memory", "gateway.methods", "gateway.process.serve", "providers.choosing"),
    *("backends.builtin.backend", "backends.builtin.searching", "backends.ranking.query"),
    *(
        "apsw",
        "asyncio",
        "anyio.lowlevel",
        "backends.builtin.store.port",
        "subprocess",
    ),
}
"""The modules that a question does not import while a gateway answers it."""


def test_serve_answers_without_what_only_other_commands_and_settings_need(shell):
    request = {"jsonrpc": "2.0", "id": 1, "method": "memory_search", "params": {"query": "boiler"}}
    assert not shell.run("index").returncode  # a search would wait for a busy disk only for so long
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *shell.command("serve", "--log-level", "error")[3:]],
        env=shell.environment,
        cwd=shell.directory,
        input=json.dumps(request) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_S,
        check=False,
    )
    assert json.loads(done.stdout)["result"]["outcome"] == "ok"
    *loaded, code = done.stderr.split()
    assert (code, NOT_AT_THE_START.intersection(loaded)) == ("0", set())
    assert "backends.builtin.backend" in loaded


QUESTIONS = (
    *(["search", "--json", "boiler"], ["search", "--json", "nothing-like-it"]),
    *(["get", "MEMORY.md"], ["status", "--json"]),
)


@pytest.mark.anyio
async def test_a_question_that_a_running_gateway_answers_opens_no_memory_of_its_own(shell):
    async with shell.home.gateway() as gateway:
        await gateway.call("memory_search", {"query": "boiler"})
        for name, *arguments in QUESTIONS:
            done = await anyio.run_process(
                [sys.executable, "-c", LOADED, *shell.command(name, *arguments)[3:]],
                env=shell.environment,
                cwd=shell.directory,
            )
            *loaded, code = done.stderr.decode().split()
            expected = "1" if "nothing-like-it" in arguments else "0"
            assert (code, NOT_FOR_A_QUESTION.intersection(loaded)) == (expected, set())
            assert (
                b"boiler" in done.stdout or b'"empty"' in done.stdout or b'"files"' in done.stdout
            )
