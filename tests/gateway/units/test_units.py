"""Unit files: as shipped, as written for a program in another place, and checked by systemd itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.each import each
from gateway import systemd_units as units_module

SYSTEMD = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not here")
PROGRAM = (sys.executable, "-m", "gateway")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SYSTEMD), *arguments], capture_output=True, encoding="utf-8", timeout=60, check=False
    )


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units of one agent, with the drop-in of an installation."""
    for name in (units_module.SERVICE, units_module.SOCKET):
        text = (units_module.templates() / name).read_text(encoding="utf-8")
        unit = tmp_path / name.replace("@", "@main")
        unit.write_text(units_module.render(text, PROGRAM), encoding="utf-8")
    drop_in = units_module.drop_in_path(tmp_path, "main")
    drop_in.parent.mkdir()
    arguments = ("--agent", "main", "--state-dir", "/srv/a b")
    text = units_module.render_drop_in(PROGRAM, arguments, [Path("/srv/a b")])
    drop_in.write_text(text, encoding="utf-8")
    return tmp_path


@needs_systemd
@pytest.mark.parametrize("name", [units_module.SERVICE, units_module.SOCKET])
def test_systemd_finds_nothing_to_complain_of(units, name):
    done = analyze("verify", str(units / name.replace("@", "@main")))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_the_exposure_is_at_most_four(units):
    unit = str(units / units_module.instance("main"))
    done = analyze("security", "--offline=true", "--threshold=40", unit)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_the_service_is_watched_restarted_within_limits_and_holds_no_secret():
    text = (units_module.templates() / units_module.SERVICE).read_text(encoding="utf-8")
    active = [line for line in text.splitlines() if line and not line.startswith("#")]
    for wanted in ("Type=notify", "NotifyAccess=main", "Restart=on-failure", "PrivateUsers=yes"):
        assert wanted in active
    for key in ("WatchdogSec=", "StartLimitBurst=", "StartLimitIntervalSec=", "TimeoutStopSec="):
        assert any(line.startswith(key) for line in active)
    assert not any(line.startswith(("Environment", "PassEnvironment")) for line in active)


def test_a_program_elsewhere_is_written_into_the_unit():
    assert units_module.PLACEHOLDER in (units_module.templates() / units_module.SERVICE).read_text(
        encoding="utf-8"
    )
    unit = units_module.render(
        f"ExecStart={units_module.PLACEHOLDER} serve", ("/a b/100%/$x", "-m", 'g"')
    )
    assert unit == 'ExecStart="/a b/100%%/$$x" -m "g\\"" serve'


@each(
    ("configured", "expected"),
    [("/etc/mine", "/etc/mine/systemd/user"), ("", "/h/.config/systemd/user"),
     ("relative", "/h/.config/systemd/user")],
)  # fmt: skip
def test_units_go_where_the_manager_looks(configured, expected):
    found = units_module.unit_directory({"XDG_CONFIG_HOME": configured}, Path("/h"))
    assert found == Path(expected)


def test_a_newline_in_the_name_of_a_directory_begins_no_setting():
    text = units_module.render_drop_in(
        PROGRAM, ("--state-dir", "/srv/a\nUMask=0"), [Path("/b\nUser=root")]
    )
    assert [line.partition("=")[0] for line in text.splitlines()] == [
        "[Service]", "ExecStart", "ExecStart", "ReadWritePaths",
    ]  # fmt: skip
    assert '"/srv/a\\x0aUMask=0"' in text
