"""Loading settings costs no more start-up time than it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "pyjson5",
    "difflib",
    "zoneinfo",
    "shlex",
    "asyncio",
    "dataclasses",
    "fractions",
    "decimal",
    "config.secrets",
    "config.source.json5",
    "rich",
)


def loaded_after(code: str) -> set[str]:
    """Returns the names of the modules that a fresh interpreter has loaded after running `code`."""
    program = f"import msgspec, pathlib, sys; before = set(sys.modules)\n{code}\nprint(*sys.modules.keys() - before)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return set(run.stdout.split())


@pytest.mark.parametrize("module", HEAVY)
def test_importing_the_loader_leaves_it_alone(module, importing):
    assert module not in importing


@pytest.fixture(scope="module")
def importing() -> set[str]:
    return loaded_after("import config.loading")


def test_without_a_file_no_parser_is_loaded(tmp_path):
    code = (
        "from pathlib import Path\nfrom config.loading import LoadRequest, load_settings\n"
        f"load_settings(LoadRequest(environment={{'HOME': {str(tmp_path)!r}}}, cwd=Path('/')))"
    )
    assert loaded_after(code).isdisjoint(HEAVY)


def test_an_ordinary_file_loads_nothing_but_the_parser(machine):
    machine.write("{agents: {defaults: {memorySearch: {model: 'x', query: {maxResults: 5}}}}}")
    code = (
        "from pathlib import Path\nfrom config.loading import LoadRequest, load_settings\n"
        f"load_settings(LoadRequest(environment={{'HOME': {str(machine.home)!r}}}, cwd=Path('/')))"
    )
    loaded = loaded_after(code)
    assert "pyjson5" in loaded
    assert loaded.isdisjoint({"difflib", "zoneinfo", "shlex", "asyncio", "config.secrets"})
