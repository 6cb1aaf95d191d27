"""Makes everything that a release publishes, in dist/, and checks it: ./scripts/build [--repository OWNER/NAME]

What is built twice has to have the same bytes. Where a tool is not to be had, the piece that needs it is left out, and
the last lines name it; `--all` makes that a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.version import VERSION
from publishing.packages import (
    ROOT,
    fill_bundle,
    fill_npm_package,
    fill_source,
    server_json,
    write_marketplace,
)

DIST: Final = ROOT / "dist"
_PATIENCE_S: Final = 900


class LeftOut(Exception):  # noqa: N818 - not an error: it is reported, and the rest is made
    """A tool is missing."""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Runs a command. Raises CalledProcessError."""
    subprocess.run(command, cwd=cwd, check=True, timeout=_PATIENCE_S)


def tool(name: str) -> str:
    """Returns the path of a tool that requirements-release.lock installs. Raises LeftOut."""
    found = shutil.which(name)
    if found is None:
        raise LeftOut(f"{name} is not installed")
    return found


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build_python(target: Path, repository: str | None) -> list[Path]:
    """Builds the wheel and the source archive, with links into the repository if it is known."""
    with tempfile.TemporaryDirectory() as place:
        source = ROOT
        if repository is not None:
            first = Path(place, "first")
            run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", first)
            (archive,) = first.iterdir()
            source = fill_source(Path(place, "source"), archive, repository)
        run(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=source)
    return sorted(target.iterdir())


def make_python(repository: str | None) -> None:
    built = build_python(DIST, repository)
    with tempfile.TemporaryDirectory() as place:
        again = build_python(Path(place), repository)
        differing = [
            one.name for one, two in zip(built, again, strict=True) if sha256(one) != sha256(two)
        ]
    if differing:
        raise SystemExit(f"Built twice, these differ: {', '.join(differing)}")
    run(tool("twine"), "check", "--strict", *built)
    run(tool("check-wheel-contents"), *DIST.glob("*.whl"))


def npm_pack(source: Path, target: Path) -> None:
    run(
        tool("npm"),
        "pack",
        source,
        "--pack-destination",
        target,
        "--ignore-scripts",
        "--silent",
        cwd=target,
    )


def make_npm(repository: str | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, again = Path(place, "package"), Path(place, "again")
        again.mkdir()
        fill_npm_package(folder, repository)
        npm_pack(folder, DIST)
        npm_pack(folder, again)
        (second,) = again.iterdir()
        if sha256(second) != sha256(DIST / second.name):
            raise SystemExit(f"Packed twice, {second.name} differs.")


def bundle() -> Path:
    return DIST / f"memory-gateway-{VERSION}.mcpb"


def make_bundle() -> None:
    setup = subprocess.run(
        [ROOT / "scripts/mcpb-setup"], stdout=subprocess.PIPE, encoding="utf-8", check=False
    )
    if setup.returncode:
        raise LeftOut("mcpb could not be installed from npm")
    mcpb = setup.stdout.strip()
    (wheel,) = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "bundle")
        fill_bundle(folder, wheel)
        run(mcpb, "validate", folder / "manifest.json")
        run(mcpb, "pack", folder, bundle())
        ask_bundle(Path(place))


def ask_bundle(place: Path) -> None:
    """Does what Claude Desktop does: unpacks it, starts what its manifest says, and asks one question."""
    unpacked, notes = place / "unpacked", place / "notes"
    with zipfile.ZipFile(bundle()) as packed:
        packed.extractall(unpacked)
    notes.mkdir()
    (notes / "house.md").write_text("The boiler is serviced each October.\n", encoding="utf-8")
    manifest = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))
    chosen = {"${__dirname}": str(unpacked), "${user_config.notes}": str(notes)}
    started = manifest["server"]["mcp_config"]
    program = os.environ.get("UV") or tool(started["command"])  # set by uv for what it runs
    command = [program, *(chosen.get(one, one) for one in started["args"])]
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "claude-ai", "version": "1"},
    }
    question = {"name": "memory_search", "arguments": {"query": "When is the boiler serviced?"}}
    calls = [("initialize", about), ("tools/list", {}), ("tools/call", question)]
    environment = {**os.environ, "HOME": str(place)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, encoding="utf-8"
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        answers = []
        for number, (method, params) in enumerate(calls):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(call) + "\n")
            server.stdin.flush()
            answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        server.wait(_PATIENCE_S)
    offered = [one["name"] for one in answers[1]["result"]["tools"]]
    if offered != [one["name"] for one in manifest["tools"]]:
        raise SystemExit(f"The bundle's server offers {offered}, which its manifest does not say.")
    if "each October" not in json.dumps(answers[2]):
        raise SystemExit(f"The bundle's server does not find the note: {answers[2]}")


def make_bill_of_materials() -> None:
    """Lists what `requirements.lock` installs: all extras. Adds the version: the tool does not see a dynamic one."""
    bill = DIST / f"memory-gateway-{VERSION}.cdx.json"
    run(
        tool("cyclonedx-py"), "requirements", ROOT / "requirements.lock", "--pyproject", ROOT / "pyproject.toml",
        "--mc-type", "application", "--output-reproducible", "--of", "JSON",
        "-o", bill,
    )  # fmt: skip
    described = json.loads(bill.read_text(encoding="utf-8"))
    described["metadata"]["component"]["version"] = VERSION
    bill.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def make_server_json(repository: str | None) -> None:
    if repository is None:
        raise LeftOut("the repository is not known: --repository OWNER/NAME")
    if not bundle().exists():
        raise LeftOut("it names the MCP bundle, which was left out")
    described = server_json(repository, bundle().name, sha256(bundle()))
    (DIST / "server.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def lint_container() -> None:
    run(tool("hadolint"), "Dockerfile")


def write_sums() -> None:
    files = sorted(one for one in DIST.iterdir() if one.is_file())
    lines = [f"{sha256(one)}  {one.name}\n" for one in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scripts/build", description=__doc__)
    parser.add_argument("--all", action="store_true", help="nothing may be left out")
    parser.add_argument(
        "--repository",
        metavar="OWNER/NAME",
        default=os.environ.get("GITHUB_REPOSITORY"),
        help="where releases are",
    )
    asked = parser.parse_args()
    if asked.repository is not None and not re.fullmatch(r"[^/\s]+/[^/\s]+", asked.repository):
        parser.error(f"--repository {asked.repository}: write it as OWNER/NAME")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    steps: dict[str, Callable[[], None]] = {
        "wheel and source archive": lambda: make_python(asked.repository),
        "npm package": lambda: make_npm(asked.repository),
        "MCP bundle": make_bundle,
        "marketplace": lambda: write_marketplace(DIST / f"memory-gateway-plugins-{VERSION}.tar.gz"),
        "bill of materials": make_bill_of_materials,
        "server.json": lambda: make_server_json(asked.repository),
        "Dockerfile": lint_container,
        "checksums": write_sums,
    }
    left_out = []
    for name, make in steps.items():
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        try:
            make()
        except LeftOut as reason:
            left_out.append(f"{name}: {reason}")
        print(f"   {time.monotonic() - began:.1f} s", flush=True)
    print()
    for one in sorted(DIST.iterdir()):
        print(f"{one.stat().st_size:>10,}  {one.name}")
    print("\n".join(f"left out: {one}" for one in left_out))
    sys.exit(bool(left_out and asked.all))


if __name__ == "__main__":
    main()
