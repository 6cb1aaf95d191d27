"""No configuration that the real OpenClaw accepts ends the gateway."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyjson5
import pytest

from config.loading import load_settings
from config.source.discover import LoadRequest
from fakes.openclaw import OpenClaw, install_openclaw
from fakes.openclaw_config import configurations
from fakes.openclaw_model import FakeModel

pytestmark = [pytest.mark.anyio, pytest.mark.shares_a_host]

FILES = 100
MADE = 130
"""The number of configurations made; the schema allows some that its validator does not."""
SERVED = 5
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> OpenClaw:
    with FakeModel() as model:  # only named in a configuration: nobody talks here
        return OpenClaw(install_openclaw(), tmp_path_factory.mktemp("host"), model)


@pytest.fixture(scope="module")
def schema(host) -> dict[str, Any]:
    done = host.run("config", "schema")
    return json.loads(done.stdout[done.stdout.index("{") :])


BY_HAND = {
    "sound": '{memory: {search: {provider: "none"}}}',
    "refused": '{memory: {backend: "qmd"}}',
    "elsewhere": "{memory: {search: {extraPaths: [{path: 'a', exclude: ['b']}]}}}",
}


@pytest.fixture(scope="module")
def documented() -> str:
    """Extra paths with `exclude`, as the documentation shows them."""
    text = (ROOT / "docs/notes.md").read_text("utf-8")
    (shown,) = (
        one for one in re.findall(r"```json5\n(.*?)```", text, re.DOTALL) if "exclude" in one
    )
    return str(shown)


@pytest.fixture(scope="module")
def verdicts(host, schema, documented, tmp_path_factory) -> dict[Path, bool]:
    """The host's verdict on each of many files, alone in a state directory; loading its validator takes long."""
    made = enumerate(configurations(schema, seed=19, count=MADE))
    texts = {str(number): text for number, text in made}
    states, files = tmp_path_factory.mktemp("states"), []
    for name, text in {**texts, **BY_HAND, "documented": documented}.items():
        (states / name).mkdir()
        files.append(states / name / "openclaw.json")
        files[-1].write_text(text, "utf-8")
    return dict(zip(files, host.accepts(files), strict=True))


@pytest.fixture(scope="module")
def accepts(verdicts) -> dict[str, bool]:
    """The verdicts on files that no generator made."""
    return {file.parent.name: verdict for file, verdict in verdicts.items()}


@pytest.fixture(scope="module")
def accepted(verdicts) -> list[Path]:
    """The files that the host accepts, as many as are tested."""
    files = [file for file, verdict in verdicts.items() if verdict and file.parent.name.isdigit()]
    assert len(files) >= FILES
    return files[:FILES]


def load(file: Path) -> Any:
    environment = {
        "HOME": str(file.parent),
        "OPENCLAW_STATE_DIR": str(file.parent),
        "OPENCLAW_CONFIG_PATH": str(file),
    }
    return load_settings(LoadRequest(environment=environment, cwd=file.parent))


def leaves(schema: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    members = schema.get("properties")
    if not members:
        yield at
        return
    for name, member in members.items():
        yield from leaves(member, (*at, name))


def paths_in(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield at
    if isinstance(value, dict):
        for name, member in value.items():
            yield from paths_in(member, (*at, name))


def test_the_validator_that_is_asked_refuses_what_the_host_refuses(accepts):
    assert (accepts["sound"], accepts["refused"]) == (True, False)


def test_a_hundred_files_that_the_host_accepts_are_read_by_us_with_each_warning_in_its_place(
    accepted,
):
    for file in accepted:
        lines = file.read_text("utf-8").splitlines()
        for warning in load(file).warnings:
            assert warning.file == str(file)
            key = re.split(r"[.\[]", re.sub(r"(\[\d+\])+$", "", warning.path))[-1]
            assert key in lines[warning.line - 1], (warning, "\n".join(lines))


def test_what_has_no_effect_with_us_is_said_and_nothing_of_the_hosts_memory_is_unknown_to_us(
    accepted,
):
    without_effect = {("memory", "search", "multimodal"), ("memory", "search", "store", "fts")}
    for file in accepted:
        warnings = {one.path: one.message for one in load(file).warnings}
        written = set(paths_in(pyjson5.decode(file.read_text("utf-8"))))
        for path in without_effect:
            said = "has no effect here" in warnings.get(".".join(path), "")
            assert said == (path in written), file.read_text("utf-8")
        assert not any("not a known key" in said for said in warnings.values()), warnings


def test_every_key_of_the_hosts_memory_stands_in_one_of_them(accepted, schema):
    written: set[tuple[str, ...]] = set()
    for file in accepted:
        written |= set(paths_in(pyjson5.decode(file.read_text("utf-8"))))
    known = set(leaves({"properties": {"memory": schema["properties"]["memory"]}}))
    assert known - written == set()


def test_extra_paths_with_exclude_are_accepted_where_the_documentation_puts_them(
    accepts, documented, tmp_path
):
    file = tmp_path / "documented.json"
    file.write_text(documented, "utf-8")
    (extra,) = load(file).search.extra_paths
    assert extra.exclude == ("/drafts/", "*.tmp.md")
    assert accepts["documented"]
    assert not accepts["elsewhere"]


async def test_on_such_files_the_real_process_serves(home, accepted):
    for file in accepted[:: FILES // SERVED]:
        shutil.copy(file, home.config)
        async with home.gateway() as client:
            answer = await client.call("memory_search", {"query": "greenhouse sensor"})
            assert answer["outcome"] in {"ok", "empty", "disabled"}, file.read_text("utf-8")
        assert home.run("config", "--json").returncode == 0, file.read_text("utf-8")
