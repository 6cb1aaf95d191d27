"""A stand-in for the command `openclaw` that changes a configuration as 2026.9.6 does, in milliseconds.

It rewrites the file as plain JSON with metadata, links and enables a plugin, gives it the memory slot, and
undoes all that. The behaviour of the real one is shown in tests/system.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

_PROGRAM: Final = """#!{python}
import json, os, signal, subprocess, sys
from pathlib import Path

config = Path(os.environ["OPENCLAW_CONFIG_PATH"])
record = config.with_name("install-record")  # without it nothing is taken out
words = sys.argv[1:]
behaviour = json.loads({behaviour!r})

def read():
    import pyjson5
    return pyjson5.decode(config.read_text()) if config.exists() else {{}}

def write(data):
    data["meta"] = {{"lastTouchedVersion": "2026.9.6"}}
    draft = config.with_name("draft")
    draft.write_text(json.dumps(data, indent=2))
    draft.replace(config)  # also where that is a link

if words[:2] == ["plugins", "install"] and behaviour["locked_s"]:
    # As the real one, which works in a session of its own and hands on the signals that it gets.
    waiting = [sys.executable, "-c", f"import time; time.sleep({{behaviour['locked_s']}})"]
    worker = subprocess.Popen(waiting, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: worker.terminate())
    (config.parent / "worker.pid").write_text(str(worker.pid))
    if worker.wait():
        sys.exit(1)

if words == ["--version"]:
    print("OpenClaw " + behaviour["version"] + " (abc)")
elif words[:2] == ["config", "validate"]:
    if not config.exists():
        print(json.dumps({{"valid": False, "path": str(config), "error": {{"message": "file not found"}}}}))
    elif behaviour["issue"]:
        issue = {{"path": "memory", "message": behaviour["issue"]}}
        print(json.dumps({{"valid": False, "path": str(config), "issues": [issue]}}))
        sys.exit(1)
    else:
        print(json.dumps({{"valid": True, "path": str(config)}}))
elif words[:2] == ["plugins", "install"] and behaviour["install_fails"]:
    print("[openclaw] Could not start the CLI.", file=sys.stderr)
    print("[openclaw] Reason: " + behaviour["install_fails"], file=sys.stderr)
    for word in (
        "Debug: set OPENCLAW_DEBUG=1 to include the stack trace.",
        "Try: openclaw doctor",
        "Help: openclaw --help",
    ):
        print("[openclaw] " + word, file=sys.stderr)
    sys.exit(1)
elif words[:2] == ["plugins", "install"]:
    is_new = not config.exists()
    data = read()
    plugins = data.setdefault("plugins", {{}})
    if is_new:
        plugins["entries"] = {{"codex": {{"config": {{"sessionCatalog": True}}}}}}
    plugins.setdefault("load", {{}})["paths"] = [words[words.index("--link") + 1]]
    entry = plugins.setdefault("entries", {{}}).setdefault("memory-gateway", {{}})
    entry.setdefault("enabled", True)
    if "allow" in plugins and "memory-gateway" not in plugins["allow"]:
        plugins["allow"].append("memory-gateway")
    plugins.setdefault("slots", {{}})["memory"] = "memory-gateway"
    data.setdefault("agents", {{}}).setdefault("entries", {{}}).setdefault("main", {{}})
    record.touch()
    write(data)
elif words[:2] == ["plugins", "enable"]:
    data = read()
    data["plugins"]["entries"]["memory-gateway"]["enabled"] = True
    write(data)
elif words[:2] == ["plugins", "inspect"]:
    paths = read().get("plugins", {{}}).get("load", {{}}).get("paths")
    if not paths or behaviour["issue"]:
        print(json.dumps({{"ok": False, "error": {{"message": "Plugin not found"}}}}))
        sys.exit(1)
    enabled = read()["plugins"]["entries"]["memory-gateway"]["enabled"]
    version = json.loads((Path(paths[0]) / "package.json").read_text())["version"]
    status = behaviour["status"] if enabled else "disabled"
    plugin = {{"status": status, "memorySlotSelected": True, "rootDir": paths[0], "version": version}}
    said = [] if status == "loaded" else [{{"message": "it is broken"}}]
    print("a line before the document")
    document = {{"plugin": plugin, "diagnostics": said}}
    if record.exists():
        document["install"] = {{"source": "path", "sourcePath": paths[0]}}
    print(json.dumps(document, indent=2))
elif words[:2] == ["plugins", "uninstall"] and not record.exists():
    sys.exit("Plugin has no authoritative package-owner metadata.")
elif words[:2] == ["plugins", "uninstall"] and behaviour["uninstall_fails"]:
    sys.exit("The database is full.")
elif words[:2] == ["plugins", "uninstall"]:
    record.unlink()
    data = read()
    data["plugins"].pop("load")
    data["plugins"]["entries"]["memory-gateway"] = {{"enabled": False}}
    data["plugins"]["slots"].pop("memory")
    write(data)
    if behaviour["done_by_another"]:
        sys.exit("Plugin has no authoritative package-owner metadata.")
elif words[:2] == ["config", "set"]:
    data = read()
    place = data
    *above, last = words[2].replace('["memory-gateway"]', ".memory-gateway").split(".")
    for name in above:
        place = place.setdefault(name, {{}})
    place[last] = json.loads(words[3]) if "--strict-json" in words else words[3]
    write(data)
else:
    sys.exit("unknown: " + " ".join(words))
"""


def make_openclaw(
    directory: Path,
    *,
    version: str = "2026.9.6",
    node: str | None = "24.21.0",
    issue: str = "",
    status: str = "loaded",
    locked_s: float = 0,
    done_by_another: bool = False,
    uninstall_fails: bool = False,
    install_fails: str = "",
) -> Path:
    """Writes the command, with a `node` of that version beside it, and returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    behaviour = json.dumps(
        {
            "version": version,
            "issue": issue,
            "status": status,
            "locked_s": locked_s,
            "done_by_another": done_by_another,
            "uninstall_fails": uninstall_fails,
            "install_fails": install_fails,
        }
    )
    command = directory / "openclaw"
    command.write_text(_PROGRAM.format(python=sys.executable, behaviour=behaviour))
    command.chmod(0o755)
    if node is not None:
        (directory / "node").write_text(f"#!/bin/sh\necho v{node}\n")
        (directory / "node").chmod(0o755)
    return command
