"""What is published: a wheel and a source archive, installed where nothing else is.

Offline and cheap: the environment gets the wheel, and of the libraries only those that the wheel requires,
as links to the installed ones. So what an extra would bring is really missing there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fakes.pipe import request, talk
from gateway.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("config", "providers", "backends", "gateway")
MOST_BYTES = 1_000_000
EXTRAS = {"openai", "gemini", "voyage", "local", "vector", "remote"}


def build(source: Path, target: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *options]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)


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
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def required(requirements: list[str]) -> set[str]:
    """The distributions that are needed without any extra, and what those need."""
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
    """Runs a command with an empty home; its standard output."""

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


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size <= MOST_BYTES


def test_the_wheel_holds_what_runs_and_nothing_else(names):
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    assert "gateway/sample/workspace/MEMORY.md" in names
    assert "gateway/systemd/memory-gateway@.service" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {*PACKAGES, "memory_gateway.py", f"memory_gateway-{VERSION}.dist-info"}
    assert not [name for name in names if name.endswith((".pyc", ".lock"))]


def test_the_source_archive_gives_the_same_wheel(built, names, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {"README.md", "LICENSE", "docs", "tests"} <= {entry.name for entry in source.iterdir()}
    build(source, tmp_path / "again", "-t", "wheel")
    (again,) = (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(again) as rebuilt:
        assert set(rebuilt.namelist()) == names


def test_the_version_stands_in_one_place(command, run):
    assert run(command, "--version").split()[-1] == VERSION
    (own,) = metadata.distributions(
        path=[str(next(command.parents[1].rglob("site-packages")))], name="memory-gateway"
    )
    assert own.version == VERSION
    assert set(own.metadata.get_all("Provides-Extra")) == EXTRAS


def test_an_installed_wheel_finds_notes_without_any_optional_library(command, run, note):
    found = json.loads(run(command, "search", "boiler pressure", "--json"))
    assert [hit["path"] for hit in found["results"]] == ["memory/2026-02-08.md"]
    assert "keywords only" in chosen(run, command)["reason"]


def test_the_demo_runs_from_the_wheel(command, run):
    assert "MEMORY.md" in run(command, "demo")


def chosen(run, command, **variables):
    """What `status` says of vectors, once it is known who makes them."""
    for _ in range(20):
        told = json.loads(run(command, "status", "--json", **variables))
        vector = told["details"]["vector"]
        if "still being chosen" not in str(vector.get("reason")):
            break
    return vector


def test_a_key_without_its_library_says_what_to_install(command, run, note):
    vector = chosen(run, command, OPENAI_API_KEY="sk-nothing")
    reasons = [one for one in vector["candidates"] if one["provider"] == "openai"]
    assert reasons[0]["remedy"] == 'Run: pip install "memory-gateway[openai]"'
    found = json.loads(run(command, "search", "boiler", "--json", OPENAI_API_KEY="sk-nothing"))
    assert found["results"]


def test_a_local_model_without_its_library_says_what_to_install(command, run, note, tmp_path):
    config = {"agents": {"defaults": {"memorySearch": {"provider": "local"}}}}
    (tmp_path / ".openclaw/openclaw.json").write_text(json.dumps(config), encoding="utf-8")
    assert "llama" in chosen(run, command)["reason"]
    assert json.loads(run(command, "search", "boiler", "--json"))["results"]


def test_without_watchdog_the_gateway_looks_by_itself_and_says_so(install, bare, note, tmp_path):
    command = [install(without="watchdog"), "serve"]
    lines = [request(1, "memory_search", {"query": "boiler"}), request(2, "status")]
    answers = talk(command, lines, replies=2, environment=bare, directory=tmp_path).results()
    assert answers[1]["results"][0]["path"] == "memory/2026-02-08.md"
    assert answers[2]["watcher"]["mode"] != "watching"
