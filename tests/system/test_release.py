"""The parts of a release beside the wheel: made of this checkout, in the form that their users expect."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import tomllib

import pytest

from gateway.mcp.mcp_methods import tool_list
from gateway.version import VERSION
from publishing import build, installs
from publishing.packages import (
    ROOT,
    fill_bundle,
    fill_npm_package,
    fill_source,
    project,
    server_json,
    write_marketplace,
)


@pytest.mark.parametrize(
    ("module", "arguments", "told"),
    [
        (build, ["--repository", "memory-gateway"], "write it as OWNER/NAME"),
        (installs, ["--python", "/nowhere/python"], "there is no such program"),
    ],
)
def test_a_mistyped_option_is_told_before_anything_is_made(
    module, arguments, told, monkeypatch, capsys
):
    monkeypatch.setattr("sys.argv", ["x", *arguments])
    with pytest.raises(SystemExit, match="2"):
        module.main()
    assert f"{' '.join(arguments)}: {told}" in capsys.readouterr().err


def test_the_npm_package_names_its_repository_and_says_how_the_program_is_installed(tmp_path):
    fill_npm_package(tmp_path, "somebody/memory-gateway")
    package = json.loads((tmp_path / "package.json").read_text("utf-8"))
    assert package["version"] == VERSION
    assert package["repository"]["url"] == "git+https://github.com/somebody/memory-gateway.git"
    assert "scripts" not in package  # nothing runs when it is installed
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "uv tool install memory-gateway" in page
    assert {"index.js", "openclaw.plugin.json", "LICENSE"} <= {
        one.name for one in tmp_path.iterdir()
    }


def test_the_page_of_a_package_index_links_into_the_repository_at_the_tag(tmp_path):
    """The page is shown far from the files beside README.md, so a relative link would lead nowhere."""
    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for name in ("README.md", "pyproject.toml"):
            packed.add(ROOT / name, f"memory_gateway-{VERSION}/{name}")
    folder = fill_source(tmp_path / "source", archive, "somebody/memory-gateway")
    page = (folder / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^()\s]+)\)", page)
    assert [one for one in targets if not one.startswith("https://")] == []
    ours = [one for one in targets if "/somebody/memory-gateway/" in one]
    assert len(ours) > 10
    for one in ours:
        path = re.split(rf"/v{re.escape(VERSION)}/", one)[1]
        assert (ROOT / re.split(r"[#?]", path)[0]).is_file()
    described = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert described["urls"]["Source"] == "https://github.com/somebody/memory-gateway"
    assert described["name"] == "memory-gateway"


def test_the_bundle_installs_its_own_wheel_and_starts_the_server_for_the_chosen_folder(tmp_path):
    wheel = tmp_path / f"memory_gateway-{VERSION}-py3-none-any.whl"
    wheel.write_bytes(b"")
    bundle = tmp_path / "bundle"
    fill_bundle(bundle, wheel)
    described = tomllib.loads((bundle / "pyproject.toml").read_text("utf-8"))
    assert described["tool"]["uv"]["sources"] == {"memory-gateway": {"path": wheel.name}}
    assert described["project"]["requires-python"] == project()["requires-python"]
    assert (bundle / wheel.name).exists()
    manifest = json.loads((bundle / "manifest.json").read_text("utf-8"))
    assert manifest["version"] == VERSION
    assert manifest["compatibility"]["runtimes"]["python"] == project()["requires-python"]
    assert (bundle / manifest["server"]["entry_point"]).is_file()
    assert set(re.findall(r"user_config\.(\w+)", json.dumps(manifest["server"]))) == set(
        manifest["user_config"]
    )
    assert [one["name"] for one in manifest["tools"]] == [
        one["name"] for one in tool_list(appends=False)
    ]


def test_the_marketplace_holds_what_the_repository_has_and_is_the_same_each_time(tmp_path):
    files = [tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"]
    for file in files:
        write_marketplace(file)
    assert len({hashlib.sha256(one.read_bytes()).hexdigest() for one in files}) == 1
    with tarfile.open(files[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    tracked = subprocess.run(
        ["git", "ls-files", "plugins", ".claude-plugin"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    ).stdout.split()  # fmt: skip
    unpacked = tmp_path / "memory-gateway"
    assert {str(one.relative_to(unpacked)) for one in unpacked.rglob("*") if one.is_file()} == set(
        tracked
    )


def test_the_registry_is_told_what_it_asks_for():
    """The constraints of its published schema that apply to one bundle were copied from it by hand."""
    entry = server_json("somebody/memory-gateway", "memory-gateway-1.mcpb", "0" * 64)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert set(entry["repository"]) == {"url", "source"}
    (package,) = entry["packages"]
    assert set(package) == {"registryType", "identifier", "version", "fileSha256", "transport"}
    assert package["identifier"].startswith(
        "https://github.com/somebody/memory-gateway/releases/download/"
    )
    assert entry["version"] == package["version"] == VERSION
