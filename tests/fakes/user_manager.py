"""A real `systemd --user`, as an unprivileged user in namespaces of its own.

A machine that was booted without systemd (a container, most of continuous integration) can still run
the manager of a user, if it finds what it expects: a `/run` with the marks of systemd, a version 2
control group that the user owns, a runtime directory. All of that exists inside a private mount and
process namespace and ends with it. Commands enter the namespaces by `nsenter`.

This checkout is mounted for the user at `/run/checkout`: it may be in the home of root, or under `/tmp`,
which `PrivateTmp=` hides. The interpreter of its virtual environment has to keep its path; where a closed
directory is in the way, an empty one that anybody may enter is mounted over it, with the interpreter inside.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

USER: Final = "nobody"
HOME: Final = Path("/run/home")
CHECKOUT: Final = Path("/run/checkout")
_CHECKOUT_OUTSIDE: Final = Path(__file__).resolve().parents[2]
_MANAGERS: Final = (Path("/usr/lib/systemd/systemd"), Path("/lib/systemd/systemd"))
_PATIENCE_S: Final = 60.0

_PREPARE: Final = r"""
set -eu
user=$1 group=$2 identity=$3 home=$4
mount --make-rprivate /
mount -t tmpfs -o mode=755,nosuid,nodev none /run
mkdir -p /run/systemd/system /run/systemd/unit-root /run/credentials "/run/user/$identity" "$home"
chown "$user:$group" "/run/user/$identity" "$home"
chmod 700 "/run/user/$identity" "$home"

mkdir /run/checkout /run/environment
mount --rbind "$CHECKOUT" /run/checkout
mount --rbind "$VENV" /run/environment

# The private directories of services are made here (`PrivateTmp=`), and whoever kills a manager leaves them.
mount -t tmpfs -o mode=1777 none /tmp
mount -t tmpfs -o mode=1777 none /var/tmp

# The interpreter behind a closed directory.
if [[ -n $CLOSED ]]; then
    mkdir /run/interpreter
    mount --rbind "$INTERPRETER" /run/interpreter
    mount -t tmpfs -o mode=755 none "$CLOSED"
    mkdir -p "$INTERPRETER"
    mount --rbind /run/interpreter "$INTERPRETER"
fi

mount -t cgroup2 none /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$CGROUP"
echo $$ > "/sys/fs/cgroup/$CGROUP/cgroup.procs"
chown -R "$user" "/sys/fs/cgroup/$CGROUP"
setpriv --reuid "$user" --regid "$group" --init-groups env -i "${ENVIRONMENT[@]}" "$MANAGER" --user &
echo prepared
read -r _ || true # until the tests close our input
"""


class UserManagerUnavailableError(Exception):
    """This machine has no manager to run; the message is the reason."""


class UserManager:
    """`with UserManager() as manager:` starts it; commands of `run` are those of its user."""

    def __init__(self) -> None:
        self._identity = pwd.getpwnam(USER).pw_uid
        self._group = pwd.getpwnam(USER).pw_gid
        self._cgroup = f"user-manager-{os.getpid()}"
        self._process: subprocess.Popen[str] | None = None

    @property
    def runtime(self) -> Path:
        return Path(f"/run/user/{self._identity}")

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that a login of the user would have."""
        return {
            "HOME": str(HOME), "USER": USER, "LOGNAME": USER, "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.runtime), "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
        }  # fmt: skip

    @property
    def _assignments(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.environment.items()]

    def __enter__(self) -> Self:
        manager = _find_manager()
        interpreter = Path(sys.base_prefix).resolve()
        prepared = {
            "CGROUP": self._cgroup, "MANAGER": str(manager), "CHECKOUT": str(_CHECKOUT_OUTSIDE),
            "VENV": sys.prefix, "INTERPRETER": str(interpreter), "CLOSED": _closed_above(interpreter),
        }  # fmt: skip
        script = "".join(f"{name}={shlex.quote(value)}\n" for name, value in prepared.items())
        script += f"ENVIRONMENT=({shlex.join(self._assignments)})\n{_PREPARE}"
        command = [
            "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
            "bash", "-c", script, "prepare",
            USER, str(self._group), str(self._identity), str(HOME),
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "prepared\n":
            self.__exit__(None, None, None)
            raise UserManagerUnavailableError("namespaces and mounts are refused here")
        deadline = time.monotonic() + _PATIENCE_S
        while self.systemctl("list-units").returncode:
            if time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise UserManagerUnavailableError("systemd --user did not start")
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._enter("bash", "-c", _REMOVE, self._cgroup)
        self._process.kill()
        self._process.communicate()

    def run(
        self, *command: str, stdin: str = "", timeout_s: float = _PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of the user to its end."""
        return self._enter(
            "setpriv", f"--reuid={self._identity}", f"--regid={self._group}", "--init-groups",
            "env", "-i", f"--chdir={HOME}", *self._assignments, *command, stdin=stdin, timeout_s=timeout_s,
        )  # fmt: skip

    def gateway(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of this gateway."""
        start = CHECKOUT / "config/runtime/start.py"
        return self.run(
            "/run/environment/bin/python", "-E", "-P", str(start), "gateway", *arguments
        )

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("systemctl", "--user", *arguments)

    def write(self, path: Path, text: str, *, mode: int = 0o600) -> None:
        """Writes a file of the user, under the home directory."""
        written = self.run(
            "bash", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod "$2" "$1"',
            "write", str(HOME / path), f"{mode:o}", stdin=text,
        )  # fmt: skip
        assert not written.returncode, written

    def read(self, path: Path) -> str:
        return self.run("cat", str(HOME / path)).stdout

    def exists(self, path: Path) -> bool:
        """Returns whether the name exists, even as a dangling link."""
        return not self.run("bash", "-c", "[[ -e $1 || -L $1 ]]", "exists", str(path)).returncode  # fmt: skip

    def _enter(
        self, *command: str, stdin: str = "", timeout_s: float = _PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", "--target", str(self._first()), "--mount", "--pid", *command],
            input=stdin, capture_output=True, encoding="utf-8", timeout=timeout_s, check=False,
        )  # fmt: skip

    def _first(self) -> int:
        """Returns the first process of the namespace, by its number outside."""
        assert self._process is not None
        number = self._process.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii")
        return int(children.split()[0])


_REMOVE: Final = r"""
# A group can be removed once nothing is in it.
echo $$ > /sys/fs/cgroup/cgroup.procs
echo 1 > /sys/fs/cgroup/cgroup.procs
kill -s KILL -1
for attempt in {1..100}; do
    find "/sys/fs/cgroup/$0" -depth -type d -exec rmdir {} + 2> /dev/null && exit 0
    sleep 0.05
done
"""


def _find_manager() -> Path:
    if os.geteuid():
        raise UserManagerUnavailableError("only root may make the namespaces")
    for tool in ("unshare", "nsenter", "setpriv", "systemctl"):
        if shutil.which(tool) is None:
            raise UserManagerUnavailableError(f"{tool} is not installed")
    found = next((path for path in _MANAGERS if path.exists()), None)
    if found is None:
        raise UserManagerUnavailableError("systemd is not installed")
    return found


def _closed_above(path: Path) -> str:
    """Returns the outermost directory above `path` that others may not enter; empty when all are open."""
    closed = (one for one in reversed(path.parents) if not one.stat().st_mode & 0o001)
    return str(next(closed, ""))
