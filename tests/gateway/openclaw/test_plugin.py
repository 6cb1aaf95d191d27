"""The plugin's JavaScript: its own tests, and its agreement with the Python side."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from config.loading import load_settings
from config.source.discover import LoadRequest
from fakes.openclaw import SETUP, install_openclaw
from gateway.flush import SessionState, Situation, decide, flush_prompts
from gateway.openclaw.installation import PLUGIN, shared_json
from gateway.session_start import daily_log
from gateway.version import VERSION

HERE = Path(__file__).parent
NOON = datetime(2026, 2, 8, 12, tzinfo=UTC)
ASK = """
const { flushPlan } = await import(process.argv[1]);
const asked = JSON.parse(process.argv[2]);
console.log(JSON.stringify(asked.map(({ config, window, now }) => flushPlan(config, now, window))));
"""


@pytest.fixture(scope="module")
def node() -> str:
    """The Node.js of the real host, whose release the plugin is for."""
    return str(Path(install_openclaw()).parent / "node")


def test_the_plugin_passes_its_own_tests(node):
    done = subprocess.run(
        [node, "--test", str(HERE / "plugin.test.mjs")],
        env={"PATH": os.environ["PATH"], "PLUGIN_DIR": str(PLUGIN)},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def test_what_both_sides_share_is_what_python_says():
    assert (PLUGIN / "shared.json").read_text(encoding="utf-8") == shared_json(), (
        "run ./scripts/reference"
    )


def test_the_package_has_the_version_of_the_program():
    assert json.loads((PLUGIN / "package.json").read_text())["version"] == VERSION


def test_npm_packs_all_that_the_plugin_imports(node, tmp_path):
    npm = shutil.which("npm")
    assert npm, f"{SETUP.name} needed it, too"
    done = subprocess.run(
        [npm, "pack", "--dry-run", "--json", str(PLUGIN)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    said = json.loads(done.stdout)
    (packed,) = said if isinstance(said, list) else said.values()
    names = {file["path"] for file in packed["files"]}
    assert names == {file.name for file in PLUGIN.iterdir() if file.suffix in (".js", ".json")}


def plans(node: str, *asked: dict[str, Any]) -> list[Any]:
    prompt = (PLUGIN / "prompt.js").as_uri()
    said = [{"now": NOON.timestamp() * 1000, **one} for one in asked]
    done = subprocess.run(
        [node, "--input-type=module", "-e", ASK, prompt, json.dumps(said)],
        env={"PATH": os.environ["PATH"], "TZ": "UTC"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"agents": {"defaults": {"compaction": {"memoryFlush": {"softThresholdTokens": 9000}}}}},
    {"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": "2mb"}}}},
    {
        "agents": {
            "defaults": {
                "userTimezone": "Pacific/Auckland",
                "compaction": {"memoryFlush": {"model": "a/b", "forceFlushTranscriptBytes": "1kb"}},
            }
        }
    },
    {
        "plugins": {
            "entries": {
                "memory-gateway": {
                    "config": {
                        "compaction": {
                            "reserveTokensFloor": 30000,
                            "memoryFlush": {
                                "prompt": "Note it for YYYY-MM-DD.",
                                "systemPrompt": "Write.",
                            },
                        }
                    }
                }
            }
        }
    },
]


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_the_flush_plan_has_the_numbers_and_words_of_python(node, tmp_path, config):
    file = tmp_path / "openclaw.json"
    file.write_text(json.dumps(config))
    request = LoadRequest(
        environment={"HOME": str(tmp_path)},
        cwd=tmp_path,
        config_path=str(file),
        state_dir=str(tmp_path),
    )
    settings = load_settings(request)
    compaction, window = settings.compaction, 200_000
    (plan,) = plans(node, {"config": config, "window": window})
    from gateway.tools.search import agent_now

    today = agent_now(settings.user_timezone, NOON).date()
    prompts = flush_prompts(compaction.memory_flush, today, daily_log(today))
    assert (plan["prompt"], plan["systemPrompt"]) == prompts
    assert plan["relativePath"] == f"memory/{today.isoformat()}.md"
    assert plan.get("model") == compaction.memory_flush.model
    due = window - plan["reserveTokensFloor"] - plan["softThresholdTokens"]
    assert due == decide(compaction, Situation(context_window=window), SessionState()).threshold
    forced = plan["forceFlushTranscriptBytes"]
    for size in (forced - 1, forced) if forced else (1 << 40,):
        situation = Situation(context_window=window, transcript_bytes=size)
        is_due = decide(compaction, situation, SessionState()).due
        assert is_due == (0 < forced <= size)


def test_a_flush_that_is_switched_off_is_no_plan(node):
    off = {"memoryFlush": {"enabled": False}}
    ours = {"plugins": {"entries": {"memory-gateway": {"config": {"compaction": off}}}}}
    assert plans(
        node, {"config": ours}, {"config": {"agents": {"defaults": {"compaction": off}}}}
    ) == [
        None,
        None,
    ]


def test_of_a_small_window_the_plan_leaves_three_quarters(node):
    """The host, too, compacts by the reserve of the plan."""
    (plan,) = plans(node, {"config": {}, "window": 16_000})
    assert plan["reserveTokensFloor"] == 4_000
    assert plan["softThresholdTokens"] == 4_000
