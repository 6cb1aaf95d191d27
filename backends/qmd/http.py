"""One request to the warm QMD over loopback.

Owns the wire: a connection a request, JSON both ways, a deadline on every step, bounded answers.
"""

from __future__ import annotations

import http.client
import json
from typing import Any, Final

from anyio.to_thread import run_sync

from backends.qmd.errors import QmdUnavailableError
from backends.qmd.process import MAX_OUTPUT_BYTES

HOST: Final = "127.0.0.1"


async def get_health(port: int, *, timeout_s: float) -> None:
    """Raises QmdUnavailableError when the server does not answer as a healthy QMD."""
    await run_sync(_exchange, port, "GET", "/health", None, timeout_s, abandon_on_cancel=True)


async def post_query(port: int, question: dict[str, Any], *, timeout_s: float) -> Any:
    """The decoded answer. Raises QmdUnavailableError."""
    body = json.dumps(question).encode()
    return await run_sync(
        _exchange, port, "POST", "/query", body, timeout_s, abandon_on_cancel=True
    )


def _exchange(port: int, method: str, path: str, body: bytes | None, timeout_s: float) -> Any:
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        with (
            connection.getresponse() as response
        ):  # it holds the socket if it is not read to its end
            data = response.read(MAX_OUTPUT_BYTES)
    except TimeoutError:
        raise QmdUnavailableError(
            "timeout", f"QMD's server did not answer within {timeout_s:.3g} s."
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise QmdUnavailableError(
            "crashed", f"QMD's server is gone: {str(error) or type(error).__name__}."
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise QmdUnavailableError("bad_answer", "QMD's server did not answer in JSON.") from None
    if response.status != http.client.OK:
        raise QmdUnavailableError(
            "bad_answer", f"QMD's server answered {response.status}: {str(answer)[:200]}."
        )
    return answer
