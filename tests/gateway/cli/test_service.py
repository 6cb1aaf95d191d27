"""`service`: the files that it cannot write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fakes.each import each


@pytest.fixture
def refuse(monkeypatch):
    """Lets the writing of each unit fail as a full disk does: the error names no file."""

    def fail_with(number):
        def write_text(*_, **__):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "write_text", write_text)

    return fail_with


@each("number, code", [(errno.EFBIG, 73), (errno.ENOSPC, 75), (errno.EDQUOT, 75)])
def test_a_unit_that_cannot_be_written_is_named_whatever_the_cause(cli, refuse, number, code):
    refuse(number)
    done = cli("service", "install")
    assert done.code == code
    assert "/systemd/user/memory-gateway@.service" in done.err
    assert "None" not in done.err
