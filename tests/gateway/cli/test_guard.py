"""Every way of failing becomes a message with a remedy and an exit code."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends.interface import IndexFullError, IndexUnavailableError, index_full, unwritable
from config.errors import MemoryGatewayError
from gateway.cli.guard import guarded, shortage
from gateway.cli.options import Options
from gateway.client import RemoteError
from gateway.rpc.wire import to_wire

QUIET, JSON, DEBUG = Options(), Options(json=True), Options(log_level="debug")


def raising(error):
    def command():
        raise error

    return command


def test_a_command_that_succeeds_gives_its_own_code(capsys):
    assert guarded(lambda: 3, QUIET) == 3
    assert capsys.readouterr() == ("", "")


def test_an_error_is_told_with_its_remedy_on_standard_error(capsys):
    error = IndexUnavailableError("The disk is full.", remedy="Free some space.")
    assert guarded(raising(error), QUIET) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "memory-gateway: The disk is full.\n  Free some space.\n"


def test_an_index_without_space_ends_as_any_full_disk_does(capsys):
    assert guarded(raising(IndexFullError("No.")), QUIET) == 75
    assert guarded(raising(OSError(errno.ENOSPC, "No space left")), QUIET) == 75
    wired = to_wire(index_full(Path("main.sqlite"), OSError(errno.ENOSPC, "No space left")))
    assert guarded(raising(RemoteError(wired.code, wired.message, wired.data)), QUIET) == 75


def test_a_full_disk_is_no_reason_to_name_another_file():
    told = unwritable(Path("r.html"), OSError(errno.ENOSPC, "No space left on device"))
    assert told.remedy == "The disk is full: free some space."


def test_with_json_the_error_is_one_document_on_standard_output(capfd):
    error = IndexUnavailableError("The disk is full.", remedy="Free some space.")
    assert guarded(raising(error), JSON) == 69
    out, err = capfd.readouterr()
    assert json.loads(out) == {
        "error": {
            "kind": "index_unavailable",
            "message": "The disk is full.",
            "remedy": "Free some space.",
        }
    }
    assert err == ""


def test_an_error_inside_of_exception_groups_is_the_one_that_is_told(capsys):
    group = ExceptionGroup("tasks", [ExceptionGroup("more", [MemoryGatewayError("Lost.")])])
    assert guarded(raising(group), QUIET) == 70
    assert capsys.readouterr().err == "memory-gateway: Lost.\n"


def test_a_fault_of_ours_is_an_apology_without_a_traceback(capsys):
    assert guarded(raising(KeyError("chunk")), QUIET) == 70
    err = capsys.readouterr().err
    assert "Sorry" in err
    assert "KeyError: 'chunk'" in err
    assert "--log-level debug" in err
    assert "Traceback" not in err


def test_a_fault_of_ours_shows_its_traceback_when_debugging(capsys):
    assert guarded(raising(KeyError("chunk")), DEBUG) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_fault_of_ours_is_json_too_when_json_is_asked_for(capfd):
    assert guarded(raising(KeyError("chunk")), JSON) == 70
    assert json.loads(capfd.readouterr().out)["error"]["kind"] == "internal"


@pytest.mark.parametrize(
    ("error", "cause", "remedy"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/x/y.py"), "open more files", "ulimit"),
        (
            ImportError(f"/x/y.so: cannot open shared object file: {os.strerror(errno.EMFILE)}"),
            "open more files",
            "LimitNOFILE=",
        ),
        (OSError(errno.ENFILE, os.strerror(errno.ENFILE)), "the machine", "fs.file-max"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "no space", "TMPDIR"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "no space", "store.path"),
        (MemoryError(), "no memory", "MemoryMax="),
        (RuntimeError("can't start new thread"), "thread or process", "TasksMax="),
    ],
)
def test_what_the_machine_lacks_is_no_fault_of_ours(error, cause, remedy, capsys):
    assert guarded(raising(error), QUIET) == os.EX_TEMPFAIL
    err = capsys.readouterr().err
    assert cause in err
    assert remedy in err
    assert "Sorry" not in err
    assert "/x/" not in err


def test_where_there_is_no_space_is_told():
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/full/index")
    found = shortage(error)
    assert found is not None
    assert "(/srv/full/index)" in found.message


def test_a_shortage_shows_its_traceback_when_debugging(capsys):
    assert guarded(raising(MemoryError()), DEBUG) == os.EX_TEMPFAIL
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["config"], ["config", "--json"]])
def test_where_the_output_has_no_space_that_is_told_once(arguments, buffering, tmp_path):
    environment = os.environ | {"HOME": str(tmp_path), "PYTHONUNBUFFERED": buffering}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *arguments],
            stdout=full, stderr=subprocess.PIPE, env=environment,
            encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == os.EX_TEMPFAIL
    assert done.stderr.count("no space is left") == 1
    assert len(done.stderr.splitlines()) == 2, done.stderr


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "I/O error"),
        OSError(errno.EAGAIN, "would block"),
        ImportError("no module x"),
        RuntimeError("cannot start"),
    ],
)
def test_other_faults_of_the_same_kinds_are_ours(error, capsys):
    assert guarded(raising(error), QUIET) == 70
    assert "Sorry" in capsys.readouterr().err


def test_an_interrupt_ends_quietly_with_130(capsys):
    assert guarded(raising(KeyboardInterrupt()), QUIET) == 130
    assert capsys.readouterr() == ("", "")


def test_what_asks_to_leave_the_process_leaves_it():
    with pytest.raises(SystemExit):
        guarded(raising(SystemExit(5)), QUIET)
