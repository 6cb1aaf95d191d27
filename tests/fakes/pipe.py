"""A gateway that gets some lines as a shell would pipe them, but without hurry.

After the end of its input it answers only what takes less than a second; so the input stays open until every
request has its answer.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE_S = 120


class Talk(NamedTuple):
    frames: list[Any]
    log: str
    """Its standard error."""

    def results(self) -> dict[Any, Any]:
        """Returns the results by id, without errors and batches."""
        replies = [one for one in self.frames if isinstance(one, dict)]
        return {one["id"]: one["result"] for one in replies if "result" in one}


def talk(
    command: Sequence[str | Path],
    lines: Sequence[bytes],
    *,
    replies: int,
    environment: Mapping[str, str],
    directory: Path | None = None,
) -> Talk:
    """Ends the input after that many replies, a batch counting as one; then the gateway has to end by itself."""
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command, env=environment, cwd=directory,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        ) as process,
    ):  # fmt: skip
        bound = threading.Timer(PATIENCE_S, process.kill)
        bound.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"".join(line + b"\n" for line in lines))
            process.stdin.flush()
            frames: list[Any] = []
            while sum(map(_is_reply, frames)) < replies and (line := process.stdout.readline()):
                frames.append(json.loads(line))
            process.stdin.close()
            frames += [json.loads(line) for line in process.stdout]
            process.wait()
        finally:
            bound.cancel()
            process.kill()
        log.seek(0)
        said = log.read().decode()
        assert process.returncode == 0, said
        return Talk(frames, said)


def request(number: int, method: str, params: object = None) -> bytes:
    """Returns the line of a request, without its newline."""
    frame = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(frame if params is None else frame | {"params": params}).encode()


def _is_reply(frame: Any) -> bool:
    return isinstance(frame, list) or "method" not in frame
