"""Makes what is published besides wheel and source archive: from this checkout, with the same bytes each time.

For the npm package (the plugin for OpenClaw) and the MCP bundle (for Claude Desktop) a folder each is made, which
their own tools pack. The marketplace is made as an archive.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any, Final

from gateway.version import VERSION

ROOT: Final = Path(__file__).resolve().parents[2]
PLUGIN: Final = ROOT / "gateway/openclaw/plugin"
PUBLISH: Final = ROOT / "publish"
SERVER_SCHEMA: Final = (
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
)
SUMMARY: Final = (
    "Finds the lines that answer a question in Markdown notes, without a key or a cloud."
)
_EPOCH: Final = 1_580_601_600
"""2020-02-02, the time that hatchling gives all files, too."""


def project() -> dict[str, Any]:
    """Returns the table `project` of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    described: dict[str, Any] = tomllib.loads(text)["project"]
    return described


def fill_source(target: Path, archive: Path, repository: str) -> Path:
    """Unpacks the source archive and adds the addresses of the project; returns the folder to build from.

    The links of its README are absolute, since a package index shows it without the files that it links to.
    """
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    (folder,) = target.iterdir()
    (folder / "PKG-INFO").unlink(missing_ok=True)  # made anew; else the archive would have two
    page = folder / "README.md"
    page.write_text(linked_to(repository, page.read_text("utf-8")), encoding="utf-8")
    settings = folder / "pyproject.toml"
    address = f"https://github.com/{repository}"
    urls = {
        "Source": address,
        "Documentation": f"{address}/blob/v{VERSION}/docs/index.md",
        "Changes": f"{address}/blob/v{VERSION}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    lines = ["", "[project.urls]", *(f'{name} = "{one}"' for name, one in urls.items())]
    settings.write_text(settings.read_text("utf-8") + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


def linked_to(repository: str, markdown: str) -> str:
    """Replaces links to files and pictures of the repository by their addresses at the tag of this release."""
    page = f"https://github.com/{repository}/blob/v{VERSION}/"
    picture = f"https://raw.githubusercontent.com/{repository}/v{VERSION}/"

    def link(found: re.Match[str]) -> str:
        is_picture = found["mark"] == "!"
        address = f"{picture}{found['path']}?sanitize=true" if is_picture else page + found["path"]
        return f"{found['mark']}[{found['text']}]({address})"

    return re.sub(
        r"(?P<mark>!?)\[(?P<text>[^\[\]]*)\]\((?![a-z]+:|#)(?P<path>[^()\s]+)\)", link, markdown
    )


def fill_npm_package(target: Path, repository: str | None) -> None:
    """Makes the plugin for OpenClaw with the page that npm shows; npm's provenance requires the repository."""
    shutil.copytree(PLUGIN, target, dirs_exist_ok=True)
    shutil.copy(PUBLISH / "openclaw/README.md", target)
    shutil.copy(ROOT / "LICENSE", target)
    if repository is not None:
        file = target / "package.json"
        package = json.loads(file.read_text(encoding="utf-8"))
        package["repository"] = {"type": "git", "url": f"git+https://github.com/{repository}.git"}
        file.write_text(json.dumps(package, indent=2) + "\n", encoding="utf-8")


def fill_bundle(target: Path, wheel: Path) -> None:
    """Makes the folder of the MCP bundle: the wheel, and a project by which uv installs it with its libraries."""
    shutil.copytree(PUBLISH / "claude-desktop", target, dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", target)
    shutil.copy(wheel, target)
    lines = [
        "[project]",
        'name = "memory-gateway-bundle"',
        f'version = "{VERSION}"',
        f'requires-python = "{project()["requires-python"]}"',
        'dependencies = ["memory-gateway"]',
        "",
        "[tool.uv]",
        "package = false",
        "",
        "[tool.uv.sources]",
        f'memory-gateway = {{ path = "{wheel.name}" }}',
    ]
    (target / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_marketplace(target: Path) -> None:
    """Writes the folder that `claude plugin marketplace add` and Codex take, as an archive."""
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=_EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for folder in (".claude-plugin", "plugins"):
            for one in sorted((ROOT / folder).rglob("*")):
                if one.is_file():
                    _add(archive, f"memory-gateway/{one.relative_to(ROOT)}", one.read_bytes())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mtime, about.mode = len(data), _EPOCH, 0o644
    archive.addfile(about, io.BytesIO(data))


def server_json(repository: str, bundle: str, sha256: str) -> dict[str, Any]:
    """Returns the entry for the MCP registry: the bundle of this release, and its checksum."""
    owner, name = repository.split("/")
    address = f"https://github.com/{repository}"
    return {
        "$schema": SERVER_SCHEMA,
        "name": f"io.github.{owner}/{name}",
        "title": "Memory Gateway",
        "description": SUMMARY,
        "repository": {"url": address, "source": "github"},
        "version": VERSION,
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"{address}/releases/download/v{VERSION}/{bundle}",
                "version": VERSION,
                "fileSha256": sha256,
                "transport": {"type": "stdio"},
            }
        ],
    }
