"""The one command that installs an extra, for each way in which this program can have been installed."""

import sys

import pytest

from providers import installing
from providers.installing import install_command, install_remedy

RECEIPT = '[tool]\nrequirements = [{{ name = "memory-gateway"{} }}]\n'


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", "'memory-gateway[local]'"),
        (', extras = ["postgres"]', "'memory-gateway[postgres,local]'"),
        (', directory = "/home/me/memory-gateway"', "'/home/me/memory-gateway[local]'"),
        (
            ', git = "https://example.com/m.git?rev=v1"',
            "'memory-gateway[local] @ git+https://example.com/m.git?rev=v1'",
        ),
    ],
)
def test_a_tool_of_uv_is_installed_again_from_where_it_came_so_that_upgrades_keep_it(
    prefix, source, expected
):
    (prefix / "uv-receipt.toml").write_text(RECEIPT.format(source), encoding="utf-8")
    assert install_command("local") == f"uv tool install --force {expected}"


@pytest.mark.parametrize("receipt", ["", "[tool]\n", "[tool]\nrequirements = 3\n", "not toml ["])
def test_a_receipt_in_another_form_counts_as_none(prefix, receipt):
    (prefix / "uv-receipt.toml").write_text(receipt, encoding="utf-8")
    assert "uv tool" not in install_command("local")


def test_pipx_adds_the_libraries_to_its_environment(prefix):
    (prefix / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    command = install_command("local")
    assert command.startswith("pipx inject memory-gateway ")
    assert "onnxruntime" in command
    assert "llama" not in command


def test_pip_does_where_it_is(prefix):
    command = install_command("local")
    assert command.startswith(f"{sys.executable} -m pip install ")


def test_llama_cpp_is_said_to_be_compiled(prefix, monkeypatch):
    assert "scripts/llama-setup" in install_remedy("llama")
    monkeypatch.setattr(installing, "_is_checkout", lambda: False)
    assert "llama-cpp-python" in install_command("llama")
    assert "compiles llama.cpp" in install_remedy("llama")
