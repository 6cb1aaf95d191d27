"""The directories of one agent: which workspace it has, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from config.loading.content import FileContent
from config.loading.resolve import Chosen
from config.paths import Directories, claude_dir, default_workspace
from config.settings import ExtraPath, Origin, Settings
from config.source.discover import Found, LoadRequest


class Surroundings(msgspec.Struct, frozen=True):
    """All that decides where an agent's things are, except its own keys."""

    request: LoadRequest
    found: Found
    content: FileContent

    def directories(
        self, agent_id: str, chosen: Mapping[str, Chosen]
    ) -> tuple[Directories, Origin]:
        """The directories, and where the workspace comes from.

        The command line, the agent's own key, for the default agent `agents.defaults.workspace`, and
        at last the built-in place.
        """
        is_default = agent_id == self.content.default_agent
        workspace = default_workspace(
            self.request.environment,
            home=self.found.home,
            state=self.found.state_dir,
            agent_id=agent_id,
            is_default=is_default,
        )
        dirs = Directories(
            home=self.found.home,
            cwd=self.request.cwd,
            state_dir=self.found.state_dir,
            workspace=workspace,
            agent_id=agent_id,
        )
        named = self._named_workspace(chosen, is_default=is_default)
        if named is None:
            return dirs, Origin(kind="default")
        return msgspec.structs.replace(dirs, workspace=dirs.resolve(named[0])), named[1]

    def _named_workspace(
        self, chosen: Mapping[str, Chosen], *, is_default: bool
    ) -> tuple[str, Origin] | None:
        if self.request.workspace is not None:
            return str(self.request.workspace), Origin(kind="command-line", detail="--workspace")
        named = chosen.get("workspace")
        if named is None and is_default:
            named = chosen.get("agents.defaults.workspace")
        return (named.value, named.origin) if named else None

    def with_claude_code(self, settings: Settings, dirs: Directories) -> Settings:
        """The settings with what Claude Code remembers among the places of notes, if that is asked for."""
        if not (settings.search.claude_code or self.request.claude_code):
            return settings
        own = claude_dir(self.request.environment, home=dirs.home, cwd=dirs.cwd)
        places: tuple[tuple[Path, str | None], ...] = (
            (own / "projects", "*/memory/**/*.md"),
            (own / "CLAUDE.md", None),
            (dirs.workspace / "CLAUDE.md", None),
        )
        extra = tuple(
            ExtraPath(path=path, pattern=pattern, raw=str(path), is_optional=True)
            for path, pattern in places
        )
        search = msgspec.structs.replace(
            settings.search,
            claude_code=True,
            extra_paths=(*settings.search.extra_paths, *extra),
        )
        return msgspec.structs.replace(settings, search=search, claude_projects=own / "projects")
