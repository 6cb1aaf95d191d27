"""A configuration file: any bytes give settings or a typed error that names the place."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from config.describe import describe_json
from config.errors import ConfigInvalidError
from config.loading.load import LoadRequest, load_settings
from fuzzing.places import place


def run(data: bytes) -> None:
    home = _home()
    file = home / "openclaw.json"
    file.write_bytes(data)
    request = LoadRequest(environment={"HOME": str(home)}, cwd=home, config_path=file)
    try:
        settings = load_settings(request)
    except ConfigInvalidError as error:
        assert error.problems
        assert error.remedy
        for problem in error.problems:
            assert problem.file, problem
            assert problem.line, problem
            assert problem.message
        str(error).encode()
        return
    assert 0 <= settings.search.chunking.overlap < settings.search.chunking.tokens
    assert 0 <= settings.search.query.min_score <= 1
    json.dumps(describe_json(settings))


@cache
def _home() -> Path:
    home = place("configuration")
    (home / "part.json5").write_text("{memory: {citations: 'on'}}", encoding="utf-8")
    return home
