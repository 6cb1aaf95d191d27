"""Finding the program, reading its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.qmd.process import QmdUnavailableError
from backends.qmd.sidecar import find_command, home_of, probe, qmd_command, read_version
from fakes.each import each
from fakes.qmd import clean_environment, qmd_settings, wrapper, write


def test_the_launcher_is_left_out_and_the_node_beside_it_is_used(qmd_command, tmp_path):
    command = find_command(qmd_command, clean_environment(tmp_path))
    assert command.argv[0] == command.node == str(Path(qmd_command).with_name("node"))
    assert command.argv[-1].endswith("@tobilu/qmd/dist/cli/qmd.js")


def test_a_program_of_another_kind_is_run_as_it_is(tmp_path, qmd_command):
    own = wrapper(tmp_path / "bin/qmd", qmd_command)
    command = find_command("qmd", {"PATH": str(tmp_path / "bin")})
    assert (command.argv, command.node) == ((own,), None)


def test_a_home_directory_may_be_meant(tmp_path, monkeypatch):
    write(tmp_path / "bin/qmd", "#!/bin/sh\n").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_command("~/bin/qmd", {}).argv == (str(tmp_path / "bin/qmd"),)


def test_arguments_are_kept_and_no_shell_sees_them(tmp_path):
    write(tmp_path / "bin/qmd", "#!/bin/sh\n").chmod(0o755)
    command = find_command("qmd --no-gpu '$HOME; x'", {"PATH": str(tmp_path / "bin")})
    assert command.argv == (str(tmp_path / "bin/qmd"), "--no-gpu", "$HOME; x")


def test_arguments_come_behind_the_script_that_the_launcher_would_run(qmd_command, tmp_path):
    command = find_command(f"{qmd_command} --no-gpu 'a b'", clean_environment(tmp_path))
    assert command.by_hand[0] == command.node
    assert command.argv[-3].endswith("qmd.js")
    assert command.argv[-2:] == command.by_hand[-2:] == ("--no-gpu", "a b")


@pytest.mark.parametrize("line", ["qmd --index work", "qmd --index=work"])
def test_another_index_than_the_agents_own_is_refused(line):
    with pytest.raises(QmdUnavailableError, match="names an index") as caught:
        find_command(line, {"PATH": "/bin"})
    assert "qmd.paths" in caught.value.remedy


@each("name", ["no-such-qmd", "/no/such/qmd", ""])
def test_a_missing_program_has_a_remedy(name):
    with pytest.raises(QmdUnavailableError) as caught:
        find_command(name, {"PATH": "/bin"})
    assert caught.value.cause == "missing"
    assert caught.value.remedy


@each(
    ("text", "version"),
    [("qmd 2.8.3 (facd35e)\n", (2, 8, 3)), ("noise\nqmd 1.0.7", (1, 0, 7)), ("2.8.3", None)],
)
def test_the_version_is_read(text, version):
    assert read_version(text) == version


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo qmd 2.7.9", "QMD 2.7.9 was found .* but 2.8 or a later 2.x is needed"),
        ("echo qmd 3.0.0", "QMD 3.0.0 was found .* but 2.8 or a later 2.x is needed"),
        ("echo hello", "does not tell its version"),
        (
            "case $1 in --version) echo qmd 2.8.3;; *) kill -SEGV $$;; esac",
            "cannot open a database",
        ),
    ],
)
async def test_a_program_that_does_not_work_is_judged(script, said, tmp_path):
    program = write(tmp_path / "qmd", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    environment = {"PATH": "/bin"}
    command = find_command(str(program), environment)
    with pytest.raises(QmdUnavailableError, match=said) as caught:
        await probe(command, environment, home_of(qmd_settings(tmp_path, "")).probing())
    assert caught.value.cause == "broken"


@pytest.mark.anyio
async def test_a_program_that_is_no_qmd_is_not_put_down_to_a_node_that_is_too_old(tmp_path):
    for name, script in (("qmd", "exit 3"), ("node", "echo v20.1.0")):
        write(tmp_path / name, f"#!/bin/sh\n{script}\n").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/bin"}
    command = find_command("qmd", environment)
    with pytest.raises(QmdUnavailableError, match=r"version: it said nothing \(exit 3\)") as caught:
        await probe(command, environment, home_of(qmd_settings(tmp_path, "")).probing())
    assert "Node.js" not in caught.value.remedy


def test_an_operator_gets_the_program_without_the_watch_on_the_gateway(qmd_command_path, tmp_path):
    settings = qmd_settings(tmp_path, qmd_command_path)
    node, script = qmd_command(settings, clean_environment(tmp_path))
    assert node.endswith("/node")
    assert script.endswith("qmd.js")


@pytest.fixture
def qmd_command_path(request) -> str:
    return request.getfixturevalue("qmd_command")
