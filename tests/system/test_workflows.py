"""The workflows of GitHub: the files that they run exist, their actions are pinned, and jobs have few rights."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEXTS = {one.name: one.read_text(encoding="utf-8") for one in FILES}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}


def steps(name):
    return [step for job in WORKFLOWS[name]["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", TEXTS)
def test_every_action_is_pinned_by_commit_and_says_which_release_that_is(name):
    used = re.findall(r"uses: (.*)", TEXTS[name])
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one)] == []


def test_one_action_has_one_commit():
    used = {one["uses"] for name in TEXTS for one in steps(name) if "uses" in one}
    assert len(used) == len({one.partition("@")[0] for one in used})


@pytest.mark.parametrize("name", TEXTS)
def test_no_job_may_more_than_it_states_nor_reads_a_secret(name):
    assert WORKFLOWS[name]["permissions"] == {}
    assert all(
        "permissions" in job and "timeout-minutes" in job
        for job in WORKFLOWS[name]["jobs"].values()
    )
    assert "secrets." not in TEXTS[name]


def test_no_file_names_the_host_of_a_package_index():
    """Installers know their own; an address in a file would bypass a mirror."""
    hosts = "registry[.]npmjs|pypi[.]org|pythonhosted|deb[.]debian|proxy[.]golang"
    found = subprocess.run(
        ["git", "grep", "-lIE", f"https?://[a-z.]*({hosts})"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert found.stdout.split() == []


@pytest.mark.parametrize("name", TEXTS)
def test_the_scripts_and_tests_that_they_run_exist(name):
    named = re.findall(r"(?:\./)?((?:scripts|tests|\.ci)/[\w./-]+)", TEXTS[name])
    assert named
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_the_notes_of_a_release_are_those_of_the_change_log():
    notes = subprocess.run(
        [ROOT / "scripts/notes", "0.2.0"], capture_output=True, encoding="utf-8", check=True
    ).stdout
    assert "beside OpenClaw 2026.9" in notes
    assert "## [" not in notes
    missing = subprocess.run([ROOT / "scripts/notes", "0.0"], capture_output=True, check=False)
    assert missing.returncode == 66


@pytest.mark.parametrize("script", ["openclaw-setup", "qmd-setup", "clients-setup"])
def test_each_host_is_pinned_where_the_weekly_run_looks_for_it(script):
    """The weekly run replaces the pinned release by the newest one."""
    text = (ROOT / "scripts" / script).read_text(encoding="utf-8")
    hosts = WORKFLOWS["weekly.yml"]["jobs"]["hosts"]["strategy"]["matrix"]["include"]
    packages = [one["package"] for one in hosts if one["script"] == script]
    assert packages
    for package in packages:
        place = max(text.find(f"{package}@$version"), text.find(f'"{package}": "$version"'))
        assert re.search(r"\bversion=\d", text[:place])
