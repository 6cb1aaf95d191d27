"""The published artifacts: a wheel, a source archive and a container image, installed where nothing else is.

Offline and cheap: the environment gets the wheel, and of the libraries only those that the wheel requires, as links
to the installed ones. So the libraries of an extra are really missing there. The image is not built, since that takes
a daemon and a base image: the files and commands that it names are looked at and run here.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
import typer.main
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fakes.pipe import request, talk
from gateway.cli.app import app
from gateway.version import VERSION
from publishing.installs import WAYS, try_way

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("config", "providers", "backends", "gateway")
MOST_BYTES = 1_110_000
EXTRAS = {"openai", "gemini", "voyage", "local", "llama", "vector", "remote", "postgres"}


def build(source: Path, target: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *options]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    target = tmp_path_factory.mktemp("dist")
    build(ROOT, target)
    return target


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel):
    return names_in(wheel)


def required(requirements: list[str]) -> set[str]:
    """Returns the distributions that are needed without any extra, and their requirements."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if name not in found:
            found.add(name)
            waiting += metadata.requires(name) or []
    return found


def link(distribution: str, site: Path, *, without: str) -> None:
    installed = metadata.distribution(distribution)
    tops = {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__", without}
    for top in tops:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(installed.locate_file(top))))


@pytest.fixture(scope="module")
def install(wheel, tmp_path_factory):
    """Makes an environment with the wheel, and returns the path of its command."""

    def make(*, without: str = "") -> Path:
        root = tmp_path_factory.mktemp("clean")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
        site = Path(sysconfig.get_path("purelib", "venv", {"base": str(root)}))
        subprocess.run(
            ["uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--no-index",
             "--python", str(root / "bin/python"), str(wheel)],
            check=True, capture_output=True, timeout=120,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        (own,) = metadata.distributions(path=[str(site)])
        for distribution in required(own.requires or []):
            link(distribution, site, without=without)
        return root / "bin/memory-gateway"

    return make


@pytest.fixture(scope="module")
def command(install):
    return install()


@pytest.fixture
def bare(tmp_path):
    """The environment of an empty home."""
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture
def run(tmp_path, bare):
    """Runs a command with an empty home; returns its standard output."""

    def start(command, *arguments, **variables):
        done = subprocess.run(
            [command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            cwd=tmp_path,
            env=bare | variables,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return start


@pytest.fixture
def note(tmp_path):
    memory = tmp_path / ".openclaw/workspace/memory"
    memory.mkdir(parents=True)
    (memory / "2026-02-08.md").write_text("The boiler has 1.4 bar.\n", encoding="utf-8")


def on_terminal(line, environment, directory):
    """Returns what a command shows where its three streams are a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(
        line, env=environment | {"TERM": "xterm"}, cwd=directory, start_new_session=True, **streams
    ) as process:
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "r+b", buffering=0) as terminal, suppress(OSError):  # EIO is its end
            while piece := terminal.read(65_536):
                shown += piece
                terminal.write(
                    b"\x04"
                )  # ends the input of those that read it, and of those that read keys
        return shown.decode(), process.wait(120)


def test_the_wheel_holds_the_plugin_for_openclaw(names):
    plugin = {file.name for file in (ROOT / "gateway/openclaw/plugin").iterdir()}
    assert {"index.js", "openclaw.plugin.json", "shared.json"} <= plugin
    assert {f"memory_gateway/gateway/openclaw/plugin/{name}" for name in plugin} <= names


@pytest.mark.parametrize("extra", ["openai", "gemini", "voyage", "remote", "local", "llama"])
def test_an_extra_that_embeds_brings_what_searches_vectors(wheel, extra):
    """Without it each command warns that sqlite-vec is not loaded, and `doctor` finds the set-up degraded."""
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        lines = archive.read(about).decode().splitlines()

    def brought(by: str) -> set[str]:
        parts = (line.partition(" extra == ") for line in lines)
        return {what for what, _, name in parts if name == f"'{by}'"}

    assert brought("vector") and brought("vector") <= brought(extra)


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size <= MOST_BYTES


def test_the_wheel_holds_what_runs_and_nothing_else(names):
    ours = {name.removeprefix("memory_gateway/") for name in names}
    assert {f"{package}/__init__.py" for package in PACKAGES} <= ours
    assert {"__init__.py", "py.typed"} <= ours
    assert "gateway/sample/workspace/MEMORY.md" in ours
    assert "gateway/systemd/memory-gateway@.service" in ours
    tops = {name.split("/")[0] for name in names}
    assert tops == {"memory_gateway", f"memory_gateway-{VERSION}.dist-info"}
    assert not [name for name in names if name.endswith((".pyc", ".lock"))]


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    """The source archive, unpacked as somebody who packages it for a distribution has it."""
    (archive,) = built.glob("*.tar.gz")
    target = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    (source,) = target.iterdir()
    return source


@pytest.fixture(scope="module")
def wheel_of_archive(unpacked, tmp_path_factory):
    target = tmp_path_factory.mktemp("again")
    build(unpacked, target, "-t", "wheel")
    (again,) = target.glob("*.whl")
    return again


def test_the_source_archive_gives_the_same_wheel(unpacked, wheel_of_archive, names):
    assert {"README.md", "LICENSE", "docs", "tests", "Dockerfile"} <= {
        entry.name for entry in unpacked.iterdir()
    }
    assert names_in(wheel_of_archive) == names


def test_building_twice_gives_the_same_bytes(wheel, wheel_of_archive):
    assert wheel_of_archive.read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("way", ["uv", "lowest"])
def test_from_an_index_it_installs_on_an_empty_home_finds_a_note_and_leaves_nothing(
    wheel_of_archive, monkeypatch, way
):
    """The test runs with the newest libraries, and with the oldest that are allowed. Without an index it is skipped."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_ONLY_BINARY", ":all:")  # no compiler
    try:
        tried = try_way(WAYS[way], sys.executable, wheel_of_archive)
    except subprocess.CalledProcessError as error:
        if "fetch" in error.stderr:
            pytest.skip("no package index can be reached")
        raise
    assert [one for one in tried.left if "memory" in one] == []


def test_an_installed_wheel_leaves_its_inner_packages_to_nobody_else(command):
    ask = f"import importlib.util as u; print([n for n in {PACKAGES} if u.find_spec(n)])"
    python = command.parent / "python"
    found = subprocess.run([python, "-P", "-c", ask], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_modules_of_the_same_names_on_the_import_path_are_not_taken_for_ours(
    command, run, note, tmp_path
):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for package in PACKAGES:
        (foreign / f"{package}.py").write_text("raise SystemExit(99)\n", encoding="utf-8")
    variables = {"PYTHONPATH": str(foreign)}
    assert json.loads(run(command, "search", "boiler", "--json", **variables))["results"]
    assert "memory/2026-02-05.md#L11-L17" in run(
        command, "demo", **variables
    )  # starts a gateway of its own


def test_the_units_start_the_installed_program(command, bare, tmp_path):
    subprocess.run([command, "service", "install"], env=bare, capture_output=True, check=False)
    unit = tmp_path / ".config/systemd/user/memory-gateway@.service"
    (line,) = (one for one in unit.read_text().splitlines() if one.startswith("ExecStart="))
    program = shlex.split(line.removeprefix("ExecStart="))[
        : -len("serve --socket-only --agent %i".split())
    ]
    done = subprocess.run(
        [*program, "--version"], env=bare, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == VERSION


def every_command() -> list[str]:
    """Returns the commands that typer knows, so that a new one is tested as well."""

    def below(group, *path: str) -> Iterator[str]:
        for name, one in group.commands.items():
            if hasattr(one, "commands"):
                yield from below(one, *path, name)
            else:
                yield " ".join((*path, name))

    return list(below(typer.main.get_command(app)))


ARGUMENTS = {
    "search": ["boiler"],
    "get": ["MEMORY.md"],
    "report": ["--output", "report.html", "--force"],
    "service": ["status"],
    "qmd": ["--", "status"],
    "models remove": ["nothing.gguf"],
    "batch cancel": ["1"],
    "remember": ["The boiler has 1.4 bar."],
}
OTHER_LINES = [
    "--version",
    "--help",
    "--show-completion",
    "--install-completion",
    "help",
    "help search",
    "help nothing",
    "nothing",
    "models",
    "batch",
    "service install",
    "service uninstall",
    "config memorySearch",
    "config --migrate",
    "metrics --textfile metrics.prom",
    "report --json --question boiler",
    "index --notes .",
    "search --notes . boiler",
    "doctor --notes .",
    "index --claude-code",
    "search --explain boiler",
    "status --index",
    "health --deep",
]
"""Other command lines: options with special handling, groups without a command, and mistakes."""
FAULTS = ("Traceback", "fault of the program", "ModuleNotFoundError")


@pytest.mark.parametrize("name", [*every_command(), *OTHER_LINES])
def test_every_command_runs_in_an_empty_home_with_the_core_libraries_alone(
    command, bare, tmp_path, name
):
    """The command runs on a terminal, which takes more libraries; each command also without one."""
    line = [str(command), *name.split(), *ARGUMENTS.get(name, [])]
    outputs = [on_terminal(line, bare, tmp_path)]
    if name not in OTHER_LINES:
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=120,
            cwd=tmp_path, env=bare, check=False,
        )  # fmt: skip
        outputs.append((done.stdout + done.stderr, done.returncode))
    for text, ended in outputs:
        assert ended != os.EX_SOFTWARE, text
        assert not [fault for fault in FAULTS if fault in text]
        assert text.strip()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("memory-gateway re", ["recent", "recall", "remember", "reload", "report"]),
        (
            "memory-gateway connect c",
            ["claude-code", "claude-desktop", "codex", "copilot", "cursor"],
        ),
    ],
)
def test_a_shell_can_ask_for_completions(command, bare, typed, offered):
    place = str(len(typed.split()) - 1)
    asked = {"_MEMORY_GATEWAY_COMPLETE": "complete_bash", "COMP_CWORD": place, "COMP_WORDS": typed}
    done = subprocess.run(
        [command], env=bare | asked, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split() == offered


def test_a_model_cannot_be_fetched_without_an_http_library_and_that_says_what_to_install(
    command, bare
):
    done = subprocess.run(
        [command, "models", "pull", "--json"], env=bare, capture_output=True, check=False
    )
    assert done.returncode == os.EX_UNAVAILABLE
    error = json.loads(done.stdout)["error"]
    assert "httpx2 is not installed" in error["message"]
    assert "httpx2>=" in error["remedy"]


def test_a_healthy_keyword_set_up_without_any_optional_library_is_healthy_to_doctor(
    command, bare, note
):
    done = subprocess.run([command, "doctor", "--json"], env=bare, capture_output=True, check=False)
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 0
    (libraries,) = (one for one in findings if one["check"] == "libraries")
    assert libraries["severity"] == "note"
    assert "simsimd" in libraries["fix"]


def test_the_version_stands_in_one_place(command, run):
    assert run(command, "--version").split()[-1] == VERSION
    (own,) = metadata.distributions(
        path=[str(next(command.parents[1].rglob("site-packages")))], name="memory-gateway"
    )
    assert own.version == VERSION
    plugin = ROOT / "gateway/openclaw/plugin/package.json"
    assert json.loads(plugin.read_text(encoding="utf-8"))["version"] == VERSION
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(\d.*?)\]", changes, re.MULTILINE)[1] == VERSION
    shown = [ROOT / "docs/operations.md", ROOT / "docs/protocol.md"]
    printed = [re.findall(r'"version": "([^"]+)"', page.read_text("utf-8")) for page in shown]
    assert printed == [[VERSION], [VERSION]]
    assert set(own.metadata.get_all("Provides-Extra")) == EXTRAS


def test_an_installed_wheel_finds_notes_without_any_optional_library(command, run, note):
    found = json.loads(run(command, "search", "boiler pressure", "--json"))
    assert [hit["path"] for hit in found["results"]] == ["memory/2026-02-08.md"]
    assert "keywords only" in chosen(run, command)["reason"]


def test_the_demo_runs_from_the_wheel(command, run):
    assert "memory/2026-02-05.md#L11-L17" in run(command, "demo")


def chosen(run, command, **variables):
    """Returns the `vector` part of `status`, once the provider is chosen."""
    for _ in range(20):
        status = json.loads(run(command, "status", "--json", **variables))
        vector = status["details"]["vector"]
        if "still being chosen" not in str(vector.get("reason")):
            break
    return vector


def test_a_key_without_its_library_says_what_to_install(command, run, note):
    vector = chosen(run, command, OPENAI_API_KEY="sk-nothing")
    reasons = [one for one in vector["candidates"] if one["provider"] == "openai"]
    remedy = reasons[0]["remedy"]
    assert remedy.startswith(f"Run: uv pip install --python {command.parent}/python ")
    assert "'httpx2>=" in remedy
    assert "memory-gateway[" not in remedy  # no index has it
    found = json.loads(run(command, "search", "boiler", "--json", OPENAI_API_KEY="sk-nothing"))
    assert found["results"]


def test_a_local_model_without_its_library_says_what_to_install(command, run, note, tmp_path):
    config = {"agents": {"defaults": {"memorySearch": {"provider": "local"}}}}
    (tmp_path / ".openclaw/openclaw.json").write_text(json.dumps(config), encoding="utf-8")
    assert "onnxruntime" in chosen(run, command)["reason"]
    assert json.loads(run(command, "search", "boiler", "--json"))["results"]


def test_without_watchdog_the_gateway_looks_by_itself_and_says_so(install, bare, note, tmp_path):
    command = [install(without="watchdog"), "serve"]
    lines = [request(1, "memory_search", {"query": "boiler"}), request(2, "status")]
    answers = talk(command, lines, replies=2, environment=bare, directory=tmp_path).results()
    assert answers[1]["results"][0]["path"] == "memory/2026-02-08.md"
    assert answers[2]["watcher"]["mode"] != "watching"


def test_one_line_installs_the_command_from_a_clone(tmp_path, bare):
    """It uses the configured package index; without any the test is skipped."""
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    done = subprocess.run(
        [Path(sys.executable).parent / "uv", "tool", "install", "--quiet", "."], cwd=ROOT,
        env={**os.environ, **tools}, capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    if done.returncode and "fetch" in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    lines = [request(1, "initialize"), request(2, "tools/list")]
    command = [tmp_path / "bin/memory-gateway", "serve"]
    answers = talk(command, lines, replies=2, environment=bare, directory=tmp_path).results()
    assert [tool["name"] for tool in answers[2]["tools"]] == ["memory_search", "memory_get"]


def instructions():
    """Returns the stages of the Dockerfile: each a list of (instruction, what follows it)."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    stages: list[list[tuple[str, str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, " ".join(rest.split())))
    return stages


@pytest.fixture
def image():
    """The last stage by instruction; of several equal ones the last one counts."""
    return dict(instructions()[-1])


def test_the_image_is_slim_built_apart_and_of_a_python_that_is_supported():
    first, last = instructions()
    (base,) = {re.split(" AS ", dict(stage)["FROM"])[0] for stage in (first, last)}
    version = re.fullmatch(r"python:(3\.\d+)-slim", base)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    assert [rest for word, rest in last if word == "RUN" and "pip" in rest] == []


def test_the_image_runs_as_nobody_in_particular_and_keeps_notes_and_index_in_volumes(image):
    last = instructions()[-1]
    words = [word for word, _ in last]
    assert image["USER"] == "10001"
    assert words.index("USER") > max(at for at, word in enumerate(words) if word == "RUN")
    assert json.loads(image["VOLUME"]) == ["/workspace", "/state"]
    made = image["RUN"]
    assert "useradd --uid 10001 --create-home gateway" in made
    assert re.search(r"install --directory --owner gateway .* /workspace /state$", made)
    assert "OPENCLAW_STATE_DIR=/state" in image["ENV"]


def test_what_docker_may_read_of_a_checkout_gives_the_same_wheel(names, tmp_path):
    """Everything else is excluded, so that no key and no note of a checkout gets into a layer."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    sent = [line[1:] for line in lines if line.startswith("!")]
    for name in sent:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    copied = [rest.split()[0] for word, rest in instructions()[0] if word == "COPY"]
    assert [name for name in copied if not (tmp_path / name).exists()] == []
    build(tmp_path, tmp_path / "dist", "-t", "wheel")
    (again,) = (tmp_path / "dist").glob("*.whl")
    assert names_in(again) == names


def test_the_command_of_the_image_becomes_healthy_and_ends_when_it_is_asked_to(
    command, bare, image, tmp_path
):
    workspace, state = tmp_path / "workspace", tmp_path / "state"
    workspace.mkdir()
    state.mkdir(mode=0o700)
    (workspace / "MEMORY.md").write_text("The boiler has 1.4 bar.\n", encoding="utf-8")
    environment = bare | {
        "PATH": f"{command.parent}:/usr/bin:/bin",
        "OPENCLAW_STATE_DIR": str(state),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    line = [*json.loads(image["ENTRYPOINT"]), *json.loads(image["CMD"])]
    line = [one.replace("/workspace", str(workspace)) for one in line]
    options, _, check = image["HEALTHCHECK"].partition(" CMD ")
    assert "--interval=" in options
    asked = [one.replace("/workspace", str(workspace)) for one in json.loads(check)]

    def is_healthy():
        return (
            subprocess.run(asked, env=environment, capture_output=True, check=False).returncode == 0
        )

    with subprocess.Popen(
        line, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("memory-gateway/*.sock")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert is_healthy()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    (state / "openclaw.json").write_text("{ broken", encoding="utf-8")
    assert not is_healthy()
