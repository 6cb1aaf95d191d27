"""Faults that another user of the machine makes: a socket in the owner's place, a workspace that may not be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import ClassVar, Final

import anyio
from anyio import to_thread

from backends.interface import IndexUnavailableError
from config.errors import ErrorKind
from endurance.agent import ANSWER_S
from endurance.faults.base import Fault, Impossible, Lasting
from endurance.run import Launch, Run
from fakes.users import IMPOSSIBLE, IMPOSTOR, OTHER, OWNER, WHY_NOT, as_user, give
from gateway.client import GatewayGoneError, RemoteError
from gateway.ownership.owner import UntrustedSocketError, read_owner
from gateway.ownership.sockets import connect_owner

_SECRET: Final = "what another user must not be told"
_PAUSE_S: Final = 0.05


class OtherUser(Fault):
    def require(self) -> None:
        if IMPOSSIBLE:
            raise Impossible(WHY_NOT)


class Impostor(OtherUser):
    """The socket of another user replaces the owner's while a second gateway is asked: nothing may be sent to it."""

    name = "impostor"
    about = "another user listens where the lock file says that the owner does, and a second gateway is asked"
    runs = 3

    async def inject(self, run: Run) -> None:
        try:
            await run.gateway.call("health", timeout_s=ANSWER_S)  # else there is no socket yet
        except RemoteError as error:
            if error.kind != ErrorKind.SHUTTING_DOWN:
                raise
            return
        owner = read_owner(run.agent.lock)
        if owner is None or owner.socket is None:
            return  # it is ending
        with tempfile.TemporaryDirectory(prefix="impostor-") as root:
            await self._take_the_place(run, Path(owner.socket), Path(root))

    async def _take_the_place(self, run: Run, path: Path, root: Path) -> None:
        root.chmod(0o755)
        theirs, received = root / "theirs", root / "heard"
        theirs.mkdir()
        received.touch()
        for one in (theirs, received):
            os.chown(one, OTHER, OTHER)
        command = [*as_user(OTHER), *IMPOSTOR, theirs / path.name, received]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                await to_thread.run_sync(process.stdout.readline)
                aside = path.parent.with_name("owner-s")
                path.parent.rename(aside)
                theirs.rename(path.parent)
                try:
                    await self._ask(run)
                finally:
                    shutil.rmtree(path.parent)
                    aside.rename(path.parent)
            finally:
                process.kill()
        if sent := received.read_bytes():
            run.fail(f"another user was told {sent[:80]!r}")

    async def _ask(self, run: Run) -> None:
        """Connects as a command does, then asks a second gateway, which may be the owner by now."""
        try:
            if (stream := await connect_owner(run.agent.lock)) is not None:
                await stream.aclose()
                run.fail("a command uses the socket of another user")
        except UntrustedSocketError:
            pass
        except IndexUnavailableError as error:
            run.fail(f"a socket of another user is told as {error}")
        async with run.agent.gateway() as second:
            try:
                await second.call("memory_search", {"query": _SECRET}, timeout_s=ANSWER_S)
                if run.is_alive and run.activity != "shutdown":
                    run.fail("a second gateway answered for an owner that it cannot reach")
            except RemoteError as error:
                if error.kind != ErrorKind.INDEX_UNAVAILABLE or not error.remedy:
                    run.fail(f"an owner that cannot be reached is told as {error}")


class Denied(OtherUser, Lasting):
    """The gateway runs as a user who may not read the workspace for a while."""

    name = "denied"
    about = "the workspace belongs to another user for a second (mode 700): answers say so, `health` is failing"
    hold_s = 1.0
    runs = 3
    impossible: ClassVar = {
        "shutdown": "a gateway that ends judges nothing any more",
        "conversations": "the host's database has to be of the user who reads it, and root reads it afterwards",
        "download": "the model's hub and its cache belong to root here",
    }

    async def before(self, run: Run) -> None:
        run.agent.root.chmod(0o755)
        give(run.agent.root, OWNER)
        run.launch = Launch(prefix=tuple(as_user(OWNER)))

    async def inject(self, run: Run) -> None:
        run.agent.workspace.chmod(0o700)  # first: it cuts off access to everything in it at once
        give(run.agent.workspace, OTHER)
        ends = time.monotonic() + ANSWER_S
        named = f"belongs to user {OTHER}"
        try:
            while True:
                health = await run.gateway.call("health", timeout_s=ANSWER_S)
                if any(named in reason for reason in health["reasons"]):
                    return
                if time.monotonic() > ends:
                    break
                await run.ask()  # a look that began before names only the files it met
                await anyio.sleep(_PAUSE_S)
        except GatewayGoneError:
            return
        run.fail(f"`health` does not name the owner: {health}")

    async def remove(self, run: Run) -> None:
        give(run.agent.workspace, OWNER)
