"""A home with a secret of its own in every place that may contain one.

The table of places is here, and how each is filled. The tests say what may come out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

from fakes.canaries import canary, files_below, leaks
from fakes.host_database import HostDatabase

WAIT_S = 60

PLACES = {
    "remote.apiKey": "sk-{}",
    "remote.headers": "{}",
    "models.providers": "sk-{}",
    "env": "AIza{}",
    ".env": "pa-{}",
    "auth profile": "sk-{}",
    "credential": "AIza{}",
    "OPENAI_API_KEY": "sk-{}",
    "HF_TOKEN": "hf_{}",
    "another variable": "{}",
    "password of a proxy": "{}",
    "spoken key": "sk-proj-{}",
    "spoken password": "password={}",
    "spoken header": "Authorization: Bearer {}",
    "spoken address": "postgres://anna:{}@db.example/x",
    "said in the database": "sk-proj-{}",
    "another MCP server": "{}",
    "store.url": "{}",
    "store.passwordFile": "{}",
    "PGPASSWORD": "{}",
    "PGPASSFILE": "{}",
}
PLANTED = {place: canary(place, form) for place, form in PLACES.items()}

QMD = """#!/bin/sh
mkdir -p "$HOME/children"
{ tr '\\0' '\\n' < /proc/self/environ; echo "$@"; } > "$HOME/children/$$"
[ "$1" = --version ] && echo "qmd 2.8.3" || echo "Documents: 0"
"""


class Wired:
    """A home with a secret in every place, and the host that knows its own key."""

    def __init__(self, home, host):
        self.home = home
        self.host = host
        self.own = {home.config}
        """Files that a person or the chat gateway wrote."""

    @property
    def environment(self):
        return self.home.environment | {
            "OPENAI_API_KEY": PLANTED["OPENAI_API_KEY"],
            "HF_TOKEN": PLANTED["HF_TOKEN"],
            "UNRELATED_TOKEN": PLANTED["another variable"],
            "HTTPS_PROXY": f"http://anna:{PLANTED['password of a proxy']}@127.0.0.1:9",
            "CREDENTIALS_DIRECTORY": str(self.home.root / "credentials"),
            "PGPASSWORD": PLANTED["PGPASSWORD"],
            "PGPASSFILE": str(self.home.root / "pgpass"),
            "PATH": os.defpath,
        }

    def write(self, path, text):
        file = self.home.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self.own.add(file)
        return file

    def database(self, url="postgresql://anna@127.0.0.1:9/memory"):
        """Returns the address of the store with a password in it; nobody listens at the default one."""
        return url.replace("@", f":{PLANTED['store.url']}@", 1)

    def plant(self, **search):
        block = {
            "provider": self.host.vendor,
            "remote": {
                "baseUrl": self.host.base_url,
                "apiKey": PLANTED["remote.apiKey"],
                "headers": {"X-Private": PLANTED["remote.headers"]},
            },
            "experimental": {"sessionMemory": True},
            "sources": ["memory", "sessions"],
            "store": {
                "url": self.database(),
                "passwordFile": str(self.write("password", PLANTED["store.passwordFile"])),
            },
            **search,
        }
        self.write("pgpass", f"*:*:*:*:{PLANTED['PGPASSFILE']}\n").chmod(0o600)
        program = self.write("qmd", QMD)
        program.chmod(0o755)
        self.home.configure(
            {
                "agents": {"defaults": {"memorySearch": block}},
                "models": {"providers": {"openai": {"apiKey": PLANTED["models.providers"]}}},
                "env": {"GEMINI_API_KEY": PLANTED["env"]},
                "memory": {
                    "append": {"enabled": True},
                    "backend": "qmd",
                    "qmd": {
                        "command": str(program),
                        "sessions": {"enabled": True},
                        "limits": {"timeoutMs": 1000 * WAIT_S},
                    },
                },
            }
        )
        self.write("state/.env", f"VOYAGE_API_KEY={PLANTED['.env']}\n")
        self.write("credentials/GOOGLE_API_KEY", PLANTED["credential"])
        profile = {"type": "api_key", "provider": "openai", "key": PLANTED["auth profile"]}
        self.write(
            "state/agents/main/agent/auth-profiles.json",
            json.dumps({"version": 1, "profiles": {"openai:default": profile}}),
        )
        said = [PLANTED[place] for place in PLACES if place.startswith("spoken")]
        lines = [{"type": "session", "id": "one"}] + [
            {"type": "message", "message": {"role": "user", "content": f"The greenhouse key {one}"}}
            for one in said
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        self.write("state/agents/main/sessions/one.jsonl", text)
        self._converse()
        server = {"command": "other", "env": {"TOKEN": PLANTED["another MCP server"]}}
        self.write(".cursor/mcp.json", json.dumps({"mcpServers": {"other": server}}))

    def _converse(self):
        """Adds a conversation to the database of a present-day host; one of its two events is packed."""
        host = HostDatabase(self.home.state)
        self.own |= {host.path.with_name(host.path.name + end) for end in ("", "-wal", "-shm")}
        if host.has_session("two"):  # it is planted once more, with other settings
            host.close()
            return
        session = host.session("two")
        session.say(f"The greenhouse number is {PLANTED['said in the database']}")
        session.answer(f"Noted: {PLANTED['said in the database']}", packed=True)
        host.close()

    @contextmanager
    def serving(self, **environment):
        command = [sys.executable, "-m", "gateway", "serve", *self.home.arguments]
        with (self.home.root / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--log-level", "debug"], env=self.environment | environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8",
            )  # fmt: skip
            with process:
                yield process
                process.stdin.close()
                process.wait(WAIT_S)

    def run(self, name, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *name.split(), *self.home.arguments, *arguments],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            timeout=WAIT_S, check=False, cwd=self.home.root,
        )  # fmt: skip
        return done.stdout + done.stderr

    def leaks(self, said):
        """Returns the secrets in these outputs and in all files that were made.

        QMD gets the addresses of the user's proxies, as it fetches its models through them.
        """
        found = leaks(PLANTED, {**said, **self.made()})
        return [
            (place, output)
            for place, output in found
            if not (place == "password of a proxy" and "/children/" in output)
        ]

    def made(self):
        """Returns every file that we or our children made: index, sidecars, locks, logs, dumps of children."""
        return files_below(self.home.root, without=self.own)
