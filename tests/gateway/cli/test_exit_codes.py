"""Every kind of error has an exit code that scripts know."""

from __future__ import annotations

from config.errors import ErrorKind
from fakes.each import each
from gateway.cli.guard import EXIT_CODES, HEALTH_CODES

SYSEXITS = range(64, 79)


@each("kind", ErrorKind)
def test_every_kind_of_error_has_an_exit_code_of_sysexits(kind):
    assert EXIT_CODES[kind] in SYSEXITS


@each(
    ("kind", "code"),
    [
        (ErrorKind.INVALID_PARAMS, 64),
        (ErrorKind.FILE_UNREADABLE, 66),
        (ErrorKind.INDEX_UNAVAILABLE, 69),
        (ErrorKind.INTERNAL, 70),
        (ErrorKind.DEADLINE_EXCEEDED, 75),
        (ErrorKind.PATH_NOT_ALLOWED, 77),
        (ErrorKind.CONFIG_INVALID, 78),
    ],
)
def test_the_codes_that_scripts_branch_on_keep_their_meaning(kind, code):
    assert EXIT_CODES[kind] == code


def test_health_has_a_code_for_each_of_its_words():
    assert HEALTH_CODES == {"ok": 0, "degraded": 1, "failing": 2}
