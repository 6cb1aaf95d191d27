"""Real configuration files in a temporary home, and loading them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from config.errors import ConfigInvalidError, ConfigProblem
from config.loading import load_settings
from config.settings import Settings
from config.source.discover import LoadRequest
from config.source.json5 import parse_json5
from config.source.located import Located, Reading

FORGIVEN = "; it is ignored"


class Machine:
    """A home directory that contains only what a test writes."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.cwd = root / "cwd"
        self.state = self.home / ".openclaw"
        self.config = self.state / "openclaw.json"
        for directory in (self.home, self.cwd):
            directory.mkdir()

    def write(self, text: str | bytes, path: Path | None = None) -> Path:
        """Writes a file, by default the usual configuration file, and returns its path."""
        path = path or self.config
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def load(
        self,
        text: str | bytes | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **request: Any,
    ) -> Settings:
        """Returns the settings, after writing `text` into the usual configuration file."""
        if text is not None:
            self.write(text)
        variables = {"HOME": str(self.home), **(environment or {})}
        return load_settings(LoadRequest(environment=variables, cwd=self.cwd, **request))

    def problems(self, text: str | bytes, **request: Any) -> tuple[ConfigProblem, ...]:
        """Returns the problems of a file that must not load."""
        with pytest.raises(ConfigInvalidError) as caught:
            self.load(text, **request)
        return caught.value.problems

    def complaints(self, text: str | bytes, **request: Any) -> list[ConfigProblem]:
        """Returns the problems of a file: those of our own keys end the program, those of the host's only warn."""
        try:
            warnings = self.load(text, **request).warnings
        except ConfigInvalidError as error:
            return list(error.problems)
        return [
            ConfigProblem(
                message=one.message.removesuffix(FORGIVEN),
                file=one.file,
                line=one.line,
                path=one.path,
            )
            for one in warnings
            if one.message.endswith(FORGIVEN)
        ]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def parse() -> Callable[[str | bytes], Located]:
    """Returns a JSON5 text as a located tree, from a file called `test.json5`."""

    def parse(text: str | bytes) -> Located:
        return parse_json5(text.encode() if isinstance(text, str) else text, Path("test.json5"))

    return parse


@pytest.fixture
def reading() -> Reading:
    return Reading({"SET": "value", "BLANK": ""})
