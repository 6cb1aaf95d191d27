"""What one reading of a configuration file collects: problems, warnings and variables used.

The readers of single values report here and go on, so that one error can list every problem at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from config.errors import ConfigInvalidError, ConfigProblem
from config.settings import ConfigWarning
from config.source.located import KeyPath, Located, render_path

OWN_PROVIDERS = ("openai", "google", "gemini", "voyage")
"""Entries of `models.providers` that embeddings use; what is wrong with others is not our concern."""


def is_foreign(at: KeyPath) -> bool:
    """Whether the path belongs to a model provider that memory has no use for."""
    return at[:2] == ("models", "providers") and len(at) > 2 and at[2] not in OWN_PROVIDERS


class Remark(msgspec.Struct, frozen=True):
    """A warning together with its path in parts, so that it can be assigned to an agent."""

    at: KeyPath
    warning: ConfigWarning


class Reading:
    """Collects; raises only at the end, in `raise_problems`."""

    def __init__(
        self,
        environment: Mapping[str, str],
        file: Path | None = None,
        tolerates: Callable[[KeyPath], bool] = lambda _at: False,
    ) -> None:
        """`tolerates` says where a problem is only worth a warning."""
        self.environment = environment
        """For `${NAME}` and for secrets that refer to a variable."""
        self.file = file
        """The file that is read; parts may come from others that it includes."""
        self._tolerates = tolerates
        self.problems: list[ConfigProblem] = []
        self.remarks: list[Remark] = []
        self.forgiven = 0
        """How many problems became warnings because they are tolerated where they stand."""
        self.variables: dict[KeyPath, tuple[str, ...]] = {}
        """Names of the variables that went into the value at a path."""

    def problem(self, at: KeyPath, node: Located, message: str) -> None:
        """A value that cannot be used. Where that is tolerated, it only does not count."""
        if self._tolerates(at):
            self.forgiven += 1
            self.warn(at, node, f"{message}; it does not count")
            return
        place = ConfigProblem(
            message=message,
            file=str(node.source.path),
            line=node.line,
            column=node.column,
            path=render_path(at),
        )
        self.problems.append(place)

    def warn(self, at: KeyPath, node: Located | None, message: str) -> None:
        if is_foreign(at):
            return
        line, file = (node.line, str(node.source.path)) if node else (None, None)
        warning = ConfigWarning(path=render_path(at), message=message, line=line, file=file)
        self.remarks.append(Remark(at, warning))

    def place(self, at: KeyPath, node: Located) -> str:
        """`agents.list[0].workspace, line 7`, for an included file with its name."""
        other = f" of {node.source.path.name}" if node.source.path != self.file else ""
        return f"{render_path(at)}, line {node.line}{other}"

    def raise_problems(self) -> None:
        """Raises `ConfigInvalidError` with every problem so far, if there is any."""
        if self.problems:
            remedy = "Correct or remove these values; without a value the default applies."
            raise ConfigInvalidError(self.problems, remedy=remedy)

    def warnings(self, *, except_below: Iterable[KeyPath]) -> tuple[ConfigWarning, ...]:
        """The warnings so far, without those about other agents' own sections."""
        others = tuple(except_below)
        own = [r for r in self.remarks if not any(r.at[: len(p)] == p for p in others)]
        return tuple(remark.warning for remark in own)
