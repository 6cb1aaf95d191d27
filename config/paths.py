"""The places of files: home, state, configuration, workspace, index, transcripts, sockets.

The functions take the environment, the home and the working directory as arguments, and at most check
whether a path exists. Nothing is created. The paths they return are absolute and lexically normalised; links
are not resolved.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from config.errors import ConfigNotFoundError

STATE_DIR_NAME = ".openclaw"
LEGACY_STATE_DIR_NAMES = (".clawdbot", ".moltbot", ".moldbot")
STATE_DIR_VARIABLES = ("OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
CONFIG_PATH_VARIABLES = ("OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH")
CONFIG_NAMES = ("openclaw.json", "clawdbot.json", "moltbot.json", "moldbot.json")
_SHOWN_NAME = 32
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)
AGENT_PLACEHOLDER = "{agentId}"
"""Stands for the agent in `store.path`."""


class Directories(msgspec.Struct, frozen=True, kw_only=True):
    """The directories that one agent's relative and derived paths start from."""

    home: Path
    cwd: Path
    state_dir: Path
    workspace: Path
    agent_id: str

    def resolve(self, text: str, base: Path | None = None) -> Path:
        """Expands `~`, and takes a relative path from `base`, by default the working directory."""
        return resolve_path(text, home=self.home, base=base or self.cwd)


def variable(environment: Mapping[str, str], *names: str) -> tuple[str, str] | None:
    """Returns the name and trimmed value of the first of these variables that is set and not blank."""
    for name in names:
        value = environment.get(name, "").strip()
        if value:
            return name, value
    return None


def named_dir(environment: Mapping[str, str], name: str) -> Path | None:
    """Returns the directory that a variable such as `XDG_CONFIG_HOME` names; a relative one is ignored, as its
    specification demands.
    """
    named = variable(environment, name)
    return Path(named[1]) if named and Path(named[1]).is_absolute() else None


def home_dir(environment: Mapping[str, str], cwd: Path) -> Path:
    """Returns `OPENCLAW_HOME`, else `HOME`, else `USERPROFILE`, else the system's entry for the user.

    A `HOME` that is not absolute is ignored: all files would otherwise be kept below the directory of each command.
    """
    named = (variable(environment, one) for one in ("HOME", "USERPROFILE"))
    plain = next((one for one in named if one and Path(one[1]).is_absolute()), None)
    chosen = variable(environment, "OPENCLAW_HOME")
    if chosen and not chosen[1].startswith("~"):
        return resolve_path(chosen[1], home=cwd, base=cwd)
    home = Path(os.path.normpath(plain[1])) if plain else _system_home()
    return resolve_path(chosen[1], home=home, base=cwd) if chosen else home


def _system_home() -> Path:
    import pwd  # noqa: PLC0415 - rarely needed, and POSIX only

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        message = "This user has no home directory."
        raise ConfigNotFoundError(message, remedy="Set HOME or OPENCLAW_HOME.") from None


def resolve_path(text: str, *, home: Path, base: Path) -> Path:
    """Takes `~` and `~/...` below `home`, absolute paths as they are, and others below `base`; normalises them."""
    text = text.strip()
    if text == "~" or text.startswith("~/"):
        return Path(os.path.normpath(home / text[2:]))
    return Path(os.path.normpath(base / text))


def exists(path: Path) -> bool:
    """Returns whether there is anything at the path; one that we may not access counts as missing."""
    return os.access(path, os.F_OK)


def is_present(path: Path) -> bool:
    """Returns whether there is anything at the path. Raises OSError if that cannot be told.

    `Path.exists` answers no then, from Python 3.14 on.
    """
    return _mode(path) != 0


def is_regular(path: Path) -> bool:
    """Returns whether there is a regular file at the path. Raises OSError if that cannot be told."""
    return stat.S_ISREG(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return 0
        raise
    except ValueError:  # a null character, which no path has
        return 0


def state_dir(environment: Mapping[str, str], *, home: Path, cwd: Path) -> Path:
    """Returns the directory that the variables name, else the first existing one of `~/.openclaw` and older places."""
    named = variable(environment, *STATE_DIR_VARIABLES)
    if named:
        return resolve_path(named[1], home=home, base=cwd)
    places = [home / name for name in (STATE_DIR_NAME, *LEGACY_STATE_DIR_NAMES)]
    return next(filter(exists, places), places[0])


def config_candidates(state: Path, *, home: Path, everywhere: bool) -> Iterator[Path]:
    """Yields the usual places of a configuration file, best first.

    `everywhere` adds the default and the older state directories; right unless the user chose one.
    """
    dirs = [state]
    if everywhere:
        dirs += [home / name for name in (STATE_DIR_NAME, *LEGACY_STATE_DIR_NAMES)]
    for place in dict.fromkeys(dirs):
        for name in CONFIG_NAMES:
            yield place / name


def default_workspace(
    environment: Mapping[str, str], *, home: Path, state: Path, agent_id: str, is_default: bool
) -> Path:
    """Returns the workspace of an agent for which the configuration names none."""
    if not is_default:
        return state / f"workspace-{agent_id}"
    profile = environment.get("OPENCLAW_PROFILE", "").strip()
    suffix = f"-{profile}" if profile and profile.lower() != "default" else ""
    return home / STATE_DIR_NAME / f"workspace{suffix}"


def claude_dir(environment: Mapping[str, str], *, home: Path, cwd: Path) -> Path:
    """Returns the directory in which Claude Code keeps this user's files."""
    named = variable(environment, "CLAUDE_CONFIG_DIR")
    return resolve_path(named[1], home=home, base=cwd) if named else home / ".claude"


def agent_dir(state: Path, agent_id: str) -> Path:
    return state / "agents" / agent_id / "agent"


def host_database(state: Path, agent_id: str) -> Path:
    """Returns the database in which the chat gateway of 2026.9 keeps this agent's sessions; no key moves it."""
    return agent_dir(state, agent_id) / "openclaw-agent.sqlite"


def auth_profile_paths(state: Path, own_dir: Path) -> tuple[Path, ...]:
    """Returns the chat gateway's files of credentials: the main agent's, then the agent's own, which wins."""
    return tuple(folder / "auth-profiles.json" for folder in (agent_dir(state, "main"), own_dir))


def sessions_dir(state: Path, agent_id: str) -> Path:
    """Returns the directory to which the chat gateway writes this agent's transcripts."""
    return state / "agents" / agent_id / "sessions"


def own_dir(state: Path, agent_id: str) -> Path:
    """Returns a directory of our own: no chat gateway uses one of this name."""
    return state / "memory-gateway" / agent_id


def flush_records_path(state: Path, agent_id: str) -> Path:
    """Returns the file that records flushes if the chat gateway has no `sessions.json`."""
    return own_dir(state, agent_id) / "flushes.json"


def qmd_home(state: Path, agent_id: str) -> Path:
    """Returns the home directory of this agent's QMD."""
    return own_dir(state, agent_id) / "qmd"


def former_qmd_home(state: Path, agent_id: str) -> Path:
    """Returns the documented place, which releases up to 0.1 used. OpenClaw 2026.9 deletes it when it starts."""
    return state / "agents" / agent_id / "qmd"


def qmd_export_dir(state: Path, agent_id: str) -> Path:
    return qmd_home(state, agent_id) / "sessions"


INDEX_MARK: Final = ".memory-gateway"
"""The mark before the suffix of an index's name, so that no chat gateway takes the file for its own."""


def index_path(state: Path, agent_id: str) -> Path:
    """Returns the index database, under a name that no chat gateway uses."""
    return state / "memory" / f"{agent_id}{INDEX_MARK}.sqlite"


def lock_beside(index: Path) -> Path:
    """Returns the lock of an index, without our mark; if the path is a link, it is beside the link's target."""
    real = Path(os.path.realpath(index))
    return real.with_name(f"{real.stem.removesuffix(INDEX_MARK)}{real.suffix}.lock")


def former_index_path(state: Path, agent_id: str) -> Path:
    """Returns the documented place, which releases up to 0.1 used.

    OpenClaw 2026.9 takes a file there for an index of its own, and refuses to start if it is one of ours.
    """
    return state / "memory" / f"{agent_id}.sqlite"


def data_dir(environment: Mapping[str, str], *, home: Path) -> Path:
    """Returns the base of files that belong to no chat gateway, in `XDG_DATA_HOME`, else `~/.local/share`."""
    base = named_dir(environment, "XDG_DATA_HOME") or home / ".local" / "share"
    return base / "memory-gateway"


NOTES_VARIABLE: Final = "MEMORY_GATEWAY_NOTES"
"""Names a folder of notes, as `--notes` does."""


def own_file(environment: Mapping[str, str], *, home: Path) -> Path:
    """Returns the one file of settings that is ours alone, in `XDG_CONFIG_HOME`, else in `~/.config`."""
    base = named_dir(environment, "XDG_CONFIG_HOME") or home / ".config"
    return base / "memory-gateway" / "config.json5"


NOTES_INDEX: Final = "index.sqlite"
"""The index of a folder of notes, in its state directory."""


def notes_state_dir(base: Path, folder: Path) -> Path:
    """Returns the state directory of one folder of notes; folders of the same name have different ones."""
    mark = hashlib.blake2s(os.fsencode(folder), digest_size=4).hexdigest()
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.name).strip("-")[:_SHOWN_NAME] or "notes"
    return base / "notes" / f"{name}-{mark}"


def runtime_dir(environment: Mapping[str, str], *, state: Path, uid: int) -> Path:
    """Returns the directory for this user's sockets; not created here, it must become mode 0700.

    It is in `XDG_RUNTIME_DIR`, else in the directory that the login manager makes, so that a service and a child of the
    chat gateway find each other although only one of them has the variable. Without either it is `run` in the state
    directory.
    """
    if (named := named_dir(environment, "XDG_RUNTIME_DIR")) is not None:
        return named / "memory-gateway"
    login = Path("/run/user") / str(uid)
    return login / "memory-gateway" if os.access(login, os.W_OK | os.X_OK) else state / "run"
