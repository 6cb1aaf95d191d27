"""Debian's Chromium without a window, driven by its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from select import select
from typing import Any, Final

from fakes.debian import program

_PATIENCE_S: Final = 60
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One page, and everything that it tried: requests, lines in its console, errors of scripts, policies."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> Any:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._send, data) :]
        while (answer := self._next()).get("id") != self._number:
            self.events.append((answer["method"], answer["params"]))
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, url: str, *, dark: bool = False, width: int = 1100) -> None:
        """Returns when the page and all its parts have been loaded or refused."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        assert "errorText" not in self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in [name for name, _ in self.events]:
            message = self._next()
            self.events.append((message["method"], message["params"]))
        # Events that are still pending come before the answer to a later question.
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def evaluate(self, script: str) -> Any:
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requested(self) -> list[str]:
        """Returns the address of every request, refused ones included."""
        return [
            params["request"]["url"]
            for name, params in self.events
            if name == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns lines in the console, errors of scripts, and issues that the browser found."""
        names = (
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Audits.issueAdded",
        )
        return [(name, params) for name, params in self.events if name in names]

    def picture(self, file: Path) -> None:
        """Writes a picture of the whole page, below the visible part, too."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._receive], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._receive, 1 << 16)
            assert data, "Chromium ended"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def chromium() -> Iterator[Page]:
    """Yields a page of a new browser with an empty profile; skips the test where there is no Chromium."""
    command = program("chromium")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as home:
        to_browser, we_send = os.pipe()
        we_receive, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes 4; ours are moved out of their way first.
        theirs = [fcntl(one, F_DUPFD, 10) for one in (to_browser, from_browser)]
        start = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        browser = subprocess.Popen(
            [
                *("bash", "-c", start, "-", *map(str, theirs), str(command), *_FLAGS),
                f"--user-data-dir={home}/profile",
            ],
            pass_fds=theirs,
            env={"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for one in (to_browser, from_browser, *theirs):
            os.close(one)
        try:
            yield Page(we_send, we_receive)
        finally:
            os.close(we_send)  # the end of its pipe ends it
            os.close(we_receive)
            with suppress(subprocess.TimeoutExpired):
                browser.wait(10)
            browser.kill()
            browser.wait()
