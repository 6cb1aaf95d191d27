"""The sample workspace that ships with the package, an agent's `MEMORY.md` and six weeks of notes, and the demo: a
conversation with a real gateway about it.

The sample is read in place and never written. The gateway of the demo is a child process that works on a copy and has a
home of its own, so nothing of the user's is read and nothing is left behind. What happens is reported as events, which
the command line shows.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio.to_thread
import msgspec

from gateway.client import GatewayClient, spawn_gateway

_INHERITED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONPATH", "TMPDIR", "TZ")
"""All that the gateway gets of our environment: no configuration, no API keys."""
_ANSWERS: Final = 3
_PATIENCE_S: Final = 10.0
"""The longest wait for an answer, if the disk does not answer a search in time."""
_PAUSE_S: Final = 0.1


def sample_workspace() -> Path:
    """Returns the folder with `MEMORY.md` and `memory/`, as installed beside this module."""
    return Path(__file__).resolve().parent / "workspace"


class DemoQuestion(NamedTuple):
    language: str
    query: str
    expected: str
    """The file that must be among the answers."""


QUESTIONS: Final = (
    DemoQuestion(
        "English", "When do the singers warm up before the concert?", "memory/2026-02-05.md"
    ),
    DemoQuestion("Chinese", "林先生的肉桂现在一公斤卖多少钱？", "memory/2026-01-28.md"),
    DemoQuestion("Japanese", "佐藤さんとの待ち合わせはどの駅？", "memory/2026-02-04.md"),
    DemoQuestion("Russian", "Какой номер заявки на экзамен?", "memory/2026-02-10.md"),
    DemoQuestion("an identifier", "a828e60", "memory/2026-01-17.md"),
)
NOTE: Final = "- The spare key of the greenhouse now hangs behind the rain barrel.\n"
NOTE_QUERY: Final = "Where is the spare key of the greenhouse?"


class Exchange(msgspec.Struct, frozen=True):
    """One request and its reply."""

    method: str
    params: Mapping[str, object]
    result: Mapping[str, Any]
    ms: float


class DemoStarted(msgspec.Struct, frozen=True):
    exchange: Exchange
    ms: float
    """The time from starting the process to its first reply."""


class Progressed(msgspec.Struct, frozen=True):
    done: int
    total: int


class Indexed(msgspec.Struct, frozen=True):
    exchange: Exchange


class Answered(msgspec.Struct, frozen=True):
    exchange: Exchange
    question: DemoQuestion

    @property
    def found(self) -> bool:
        hits: list[dict[str, object]] = self.exchange.result["results"]
        return any(hit["path"] == self.question.expected for hit in hits)


class Wrote(msgspec.Struct, frozen=True):
    path: str
    text: str


class DemoFinished(msgspec.Struct, frozen=True):
    exchange: Exchange
    """The status."""
    search_ms: tuple[float, ...]


Event = DemoStarted | Progressed | Indexed | Answered | Wrote | DemoFinished
Report = Callable[[Event], None]


async def run_demo(report: Report, log_level: str | None = None) -> bool:
    """Runs the demo; True when every question found its file. Raises what the client raises.

    With a log level the gateway's log goes to standard error.
    """
    with tempfile.TemporaryDirectory(prefix="memory-gateway-demo-") as name:
        place = Path(name)
        workspace = place / "workspace"
        await anyio.to_thread.run_sync(_copy, sample_workspace(), workspace)

        reported: set[Progressed] = set()

        def notified(method: str, params: Any) -> None:
            if method == "notifications/progress":
                progress = Progressed(params["done"], params["total"])
                if progress not in reported:  # the end of a sync is notified once more
                    reported.add(progress)
                    report(progress)

        started = time.perf_counter()
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        logging = ["--log-level", log_level] if log_level else []
        async with spawn_gateway(
            ["--workspace", str(workspace), "--state-dir", str(place / "state"), *logging],
            environment={**inherited, "HOME": str(place / "home")},
            notified=notified,
            share_stderr=bool(log_level),
        ) as client:
            hello = await _ask(client, "initialize", {"client": "demo"})
            report(DemoStarted(hello, (time.perf_counter() - started) * 1000))
            return await _converse(client, workspace, report)


async def _converse(client: GatewayClient, workspace: Path, report: Report) -> bool:
    report(Indexed(await _ask(client, "sync", {"reason": "demo", "force": True})))
    answers = [await _question(client, question, report) for question in QUESTIONS]
    path = f"memory/{datetime.now(UTC).astimezone():%Y-%m-%d}.md"
    await anyio.to_thread.run_sync(_append, workspace / path, NOTE)
    report(Wrote(path, NOTE))
    just_written = DemoQuestion("what was just written", NOTE_QUERY, path)
    answers.append(await _question(client, just_written, report, patience_s=_PATIENCE_S))
    times = tuple(answer.exchange.ms for answer in answers)
    report(DemoFinished(await _ask(client, "status", {}), times))
    return all(answer.found for answer in answers)


async def _question(
    client: GatewayClient, question: DemoQuestion, report: Report, *, patience_s: float = 0.0
) -> Answered:
    """Asks a question, and for some time again while the answer itself says that it may lack something."""
    params = {"query": question.query, "maxResults": _ANSWERS}
    deadline = time.perf_counter() + patience_s
    while True:
        answer = Answered(await _ask(client, "memory_search", params), question)
        is_late = time.perf_counter() >= deadline
        if answer.found or not answer.exchange.result.get("stale") or is_late:
            report(answer)
            return answer
        await anyio.sleep(_PAUSE_S)


async def _ask(client: GatewayClient, method: str, params: Mapping[str, object]) -> Exchange:
    started = time.perf_counter()
    result = await client.call(method, params)
    return Exchange(method, params, result, round((time.perf_counter() - started) * 1000, 1))


def _copy(source: Path, target: Path) -> None:
    """Copies contents only: installed files may be read-only, and the copy is written to."""
    for file in source.rglob("*.md"):
        copied = target / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(file.read_bytes())


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as log:
        log.write(text)
