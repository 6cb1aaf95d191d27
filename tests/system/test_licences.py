"""The licences of the gateway's libraries are known to anybody who distributes it."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from packaging.utils import canonicalize_name

from publishing.licences import PAGE, core, licence_of, locked, replaced, table


def installed(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def test_every_locked_library_states_a_licence_that_spdx_knows():
    found = [licence_of(one.name) for one in locked() if installed(one.name)]
    assert len(found) > 60
    assert [one for one in found if one.expression is None] == []


def test_no_library_demands_that_whoever_uses_it_publishes_their_own_code():
    found = [licence_of(one.name) for one in locked() if installed(one.name)]
    licences = {one.library: one.expression or "" for one in found}
    copyleft = {name: licence for name, licence in licences.items() if "GPL" in licence}
    # The Lesser GPL covers the library's own code alone, and nothing loads it unless PostgreSQL is configured.
    assert copyleft == {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="the page has the backport of zstd, which older ones need"
)
def test_the_page_lists_the_libraries_that_are_always_installed():
    page = PAGE.read_text(encoding="utf-8")
    assert replaced(page, table(map(licence_of, core()))) == page


def test_everything_that_is_always_installed_is_locked():
    assert core() <= {canonicalize_name(one.name) for one in locked()}


@pytest.mark.parametrize("stated", ["see LICENSE", "BSD", "Apache"])
def test_an_unclear_statement_is_no_licence(tmp_path, monkeypatch, stated):
    about = tmp_path / "unclear-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: unclear\nVersion: 1.0\nLicense: {stated}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert licence_of("unclear").expression is None
