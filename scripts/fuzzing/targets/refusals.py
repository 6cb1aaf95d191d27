"""A host's unhappy answer: status, a header that asks for patience, and a body that may name the key.

The first byte is the status, the first line the header; `KEY` in the body stands for the secret.
"""

from __future__ import annotations

import math

from providers.errors import ProviderError
from providers.remote.replies import Refusal, error_for

_STATUSES = (400, 401, 402, 403, 404, 408, 413, 422, 429, 429, 500, 503)
_SECRET = "canary-6b1f0d9e7a5c3824"


def run(data: bytes) -> None:
    status = _STATUSES[data[0] % len(_STATUSES)] if data else 500
    header, _, body = data[1:].partition(b"\n")
    refusal = Refusal(
        status=status,
        headers={"retry-after": header.decode("latin-1")},
        body=body.replace(b"KEY", _SECRET.encode()),
        request=b'{"input":["alpha beta gamma delta"]}',
        place="OpenAI at api.openai.com",
        key_source="the configuration",
        secrets=(_SECRET,),
        now_s=1_790_000_000.0,
    )
    error = error_for(refusal)
    assert isinstance(error, ProviderError)
    assert _SECRET not in str(error)
    assert "alpha beta gamma" not in str(error)
    wait_s = getattr(error, "retry_after_s", None)
    assert wait_s is None or (math.isfinite(wait_s) and wait_s >= 0)
