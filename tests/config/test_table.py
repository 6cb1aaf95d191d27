"""The table of keys itself: complete, consistent, and the only place of its facts."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from config.keys.kinds import Flag, FreeText, Kind, Whole
from config.keys.tree import SettingsGroup, build_tree, group, keys_of, setting
from config.loading import assign, default_settings, snake_case
from config.paths import Directories
from config.sections import SECTIONS
from config.settings import HybridSettings, QuerySettings, Settings
from fakes.each import each

KEYS = [(section, key) for section in SECTIONS for key in section.keys]
IDS = [section.documented(key.path) for section, key in KEYS]

# Filled from the request and the machine, or from keys under free names.
NOT_FROM_ONE_KEY = {
    "agent_id",
    "state_dir",
    "sessions_dir",
    "notes_folder",
    "claude_projects",
    "enabled_key",
    "started_as",
    "write_granted",
    "config_path",
    "config_is_ours",
    "model_providers",
    "auth",
    "environment_keys",
    "origins",
    "warnings",
    "search.remote.api_key_problem",
    "search.store.url_problem",
    "search.sessions_in_private_only",
    "search.store.former_path",
}


@pytest.fixture
def defaults() -> Settings:
    places = {name: Path(f"<{name}>") for name in ("home", "cwd", "state_dir", "workspace")}
    return default_settings(Directories(agent_id="main", **places))


def leaves(value, prefix=""):
    """Yields dotted paths of everything in the settings that is not itself a group of settings."""
    for name in value.__struct_fields__:
        member = getattr(value, name)
        path = f"{prefix}{name}"
        group = type(member).__name__.endswith("Settings") or type(member).__name__ == "QmdLimits"
        if group and path != "auth":
            yield from leaves(member, f"{path}.")
        else:
            yield path


def test_every_field_of_the_settings_is_filled_by_exactly_one_key(defaults):
    filled = [key.field for _, key in KEYS if key.field]
    assert len(filled) == len(set(filled))
    assert set(filled) == set(leaves(defaults)) - NOT_FROM_ONE_KEY


@each(("section", "key"), KEYS)
def test_every_key_says_what_it_means_and_what_is_allowed(section, key):
    assert key.meaning.endswith(".")
    assert key.meaning[0].isupper() or key.meaning.startswith("sqlite-vec")
    assert "\n" not in key.meaning
    assert isinstance(key.kind, Kind)
    assert key.kind.allowed


@each(("section", "key"), KEYS)
def test_every_default_can_be_shown_as_in_the_file(defaults, section, key):
    if key.field:
        assert msgspec.json.encode(key.kind.render(attrgetter(key.field)(defaults)))


def test_documented_paths_are_unique():
    assert len(IDS) == len(set(IDS))


def test_the_tree_has_a_place_for_every_key_and_no_two_share_one():
    assert build_tree(SECTIONS).children


def test_every_retired_path_gives_a_reason():
    for section in SECTIONS:
        for path, reason in section.retired:
            assert path
            assert not reason.endswith(".")


class Inner(SettingsGroup):
    wait_ms: int = setting(Whole(minimum=1), "How long.", default=5, path="wait")
    all_files: bool = setting(Flag(), "Whether all.", default=False)


class Outer(SettingsGroup):
    name: str = setting(FreeText(), "Whose.")
    inner: Inner = group(Inner, default=Inner())
    kept: int = 3


def test_a_setting_is_declared_once_with_its_field_and_the_key_follows():
    found = {key.field: (section, key.path) for section, key in keys_of(Outer, "here")}
    assert found == {
        "name": ("here", "name"),
        "inner.wait_ms": ("here", "inner.wait"),
        "inner.all_files": ("here", "inner.allFiles"),
    }
    assert Outer(name="x").inner == Inner(wait_ms=5, all_files=False)
    with pytest.raises(TypeError, match="name"):
        Outer()
    with pytest.raises(AttributeError, match="immutable"):
        Outer(name="x").name = "y"


@each(
    ("camel", "snake"),
    [("model", "model"), ("baseUrl", "base_url"), ("query.minScore", "query.min_score")],
)
def test_fields_are_named_after_their_keys(camel, snake):
    assert snake_case(camel) == snake


def test_assigning_replaces_only_what_is_named():
    query = QuerySettings()
    changed = assign(
        query, {"max_results": 3, "hybrid.enabled": False, "decay.half_life_days": 7.0}
    )
    assert changed.max_results == 3
    assert changed.hybrid == HybridSettings(enabled=False)
    assert (changed.decay.enabled, changed.decay.half_life_days) == (False, 7.0)
    assert query == QuerySettings()
