"""Every request that the documentation shows is sent to a real gateway, and answered as shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from gateway.doctor.finding import Check

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
REQUEST = re.compile(r"^ +→ (\{.*\})$", re.MULTILINE)


COMMAND = re.compile(r"^ {4}memory-gateway ((?:status|health|doctor)\b[^#\n]*)", re.MULTILINE)


def _requests(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        (json.loads(found[1]), _answer(text[found.end() :])) for found in REQUEST.finditer(text)
    ]


def _answer(text):
    """What is shown as the answer, up to the next request or the end of the example."""
    return re.split(r"\n\s*→|\n\n(?! )", text, maxsplit=1)[0]


@pytest.mark.parametrize("document", ["README.md", "docs/protocol.md"])
async def test_the_requests_of_the_documentation_are_answered_as_it_says(home, document):
    home.configure({"memory": {"append": {"enabled": True}}})
    examples = _requests(document)
    assert len(examples) >= 5
    async with home.gateway() as client:
        for request, shown in examples:
            if "id" not in request:
                await client.notify(request["method"], request["params"])
                continue
            result = await client.call(request["method"], request.get("params", {}))
            promised = re.search(r'"result": \{\s*"(\w+)"', shown)
            assert promised, shown
            assert promised[1] in result


def test_the_commands_of_the_documentation_run_as_it_says(home):
    home.state.chmod(0o700)
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    commands = COMMAND.findall(text)
    assert len(commands) == 7
    for command in commands:
        done = home.run(*command.split())
        assert (done.returncode, done.stderr) == (0, ""), command


def test_the_checks_of_the_doctor_are_documented():
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert [one for one in get_args(Check) if f"`{one}`" not in text] == []
