"""The directories of one agent: which workspace it has, and why."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from config.loading.content import FileContent
from config.loading.resolve import Chosen
from config.paths import Directories, default_workspace
from config.settings import Origin
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
