"""The parsers that are fuzzed: for each a function of bytes that raises if a promise is broken."""

from __future__ import annotations

import atexit
import json
import math
import os
import tempfile
import threading
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from backends.builtin.syncing.preparing import Preparer
from backends.chunking import Chunk, ChunkLimits, chunk_markdown
from backends.files.reading import decode
from backends.interface import GAP
from backends.qmd.answering import Proposal, QmdFound, analyse, document_passages, lexical_passages
from backends.qmd.process import QmdUnavailableError
from backends.qmd.server import ResultRow, exchange, rows_of_answer
from backends.redaction import redact
from backends.text.units import split_units, utf16_length
from backends.transcripts.host_database import decompressed
from backends.transcripts.jsonl import digest_of, read_stretch
from backends.transcripts.turns import render_event, render_turn
from config.describe import describe_json
from config.errors import ConfigInvalidError
from config.loading import load_settings
from config.runtime.worker import FrameReader, ProtocolError
from config.source.discover import LoadRequest
from fakes.host_database import pack
from fakes.loopback import LoopbackHandler, LoopbackServer
from fakes.settings import make_settings, remote
from gateway.connect.clients import CLIENTS
from gateway.connect.entries import servers_in, with_server, without_server
from gateway.rpc.wire import Batch, Call, ClientReply, Malformed, RpcError, decode_line
from gateway.rpc.wire import LineSplitter as PipeSplitter
from providers.batch.openai_jobs import read_line
from providers.batch.result_files import ResultLine, ResultLines, results_of
from providers.choosing import provider
from providers.local.model import Wishes, read_model
from providers.local.worker import Reply, Request
from providers.provider_interface import (
    ItemError,
    ProviderBadResponseError,
    ProviderError,
    ProviderRequest,
    ProviderUnavailableError,
    Vector,
)
from providers.remote.answers import Refusal, error_for

_LIMIT = 1 << 12
_MEMBERS = 16


def protocol(data: bytes) -> None:
    lines = _pipe_lines(data, len(data) or 1)
    assert list(map(str, _pipe_lines(data, 1 + len(data) % 7))) == list(map(str, lines))
    for line in lines:
        if isinstance(line, RpcError):
            continue
        message = decode_line(line, batch_members=_MEMBERS)
        for member in message.members if isinstance(message, Batch) else (message,):
            _check_message(member)


def _pipe_lines(data: bytes, piece: int) -> list[bytes | RpcError]:
    splitter = PipeSplitter(_LIMIT)
    found: list[bytes | RpcError] = []
    for start in range(0, len(data), piece):
        found += splitter.feed(data[start : start + piece])
    return found + splitter.finish()


def _check_message(message: object) -> None:
    assert isinstance(message, Call | Malformed | ClientReply)
    if isinstance(message, Call):
        assert message.method
        assert message.params is None or message.params[:1] in b"{["
    if isinstance(message, Malformed):
        assert message.error.message


def configuration(data: bytes) -> None:
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


_LIMITS = (ChunkLimits(), ChunkLimits(60, 10), ChunkLimits(9, 3), ChunkLimits(1, 0))
_SNIPPET = 700


def markdown(data: bytes) -> None:
    text = decode(data)
    limits = _LIMITS[data[0] % len(_LIMITS) if data else 0]
    _check_chunks(text, chunk_markdown(text, limits))
    _check_units(text)
    _check_rows(text, limits)
    _check_snippets(text)


def _check_chunks(text: str, chunks: list[Chunk]) -> None:
    assert bool(chunks) == bool(text)
    if chunks:
        assert chunks[0].start == 0
        assert chunks[-1].end == len(text)
    for before, chunk in pairwise(chunks):
        assert before.start < chunk.start <= before.end < chunk.end
    for chunk in chunks:
        assert chunk.start_line == 1 + text.count("\n", 0, chunk.start)
        assert chunk.end_line == chunk.start_line + text.count("\n", chunk.start, chunk.end - 1)


def _check_units(text: str) -> None:
    units = split_units(text)
    assert "".join(text[one.start : one.end] for one in units) == text.replace("\n", "")
    assert all(utf16_length(text[one.start : one.end]) <= _SNIPPET for one in units)


def _check_rows(text: str, limits: ChunkLimits) -> None:
    prepared = Preparer(limits).prepare("memory/2026-02-01.md", text)
    for chunk in prepared.chunks:
        assert text.startswith(chunk.text, chunk.start)
        assert len(chunk.terms.split("\n")) == len(split_units(chunk.text))
        ends = [0, *(excerpt.end for excerpt in chunk.excerpts)]
        for end, excerpt in zip(ends, chunk.excerpts, strict=False):
            assert end <= excerpt.start < excerpt.end <= len(chunk.text)
            assert chunk.text[excerpt.start : excerpt.end].strip()
            assert excerpt.line == chunk.text.count("\n", 0, excerpt.start)


def _check_snippets(text: str) -> None:
    question = text.rstrip("\n").rpartition("\n")[2]
    proposals = [Proposal(analyse(text), 0.5, 1)]
    for passages in (lexical_passages, document_passages):
        for found in passages(question, proposals, max_chars=_SNIPPET):
            _check_passage(text, found)


def _check_passage(text: str, found: QmdFound) -> None:
    passage = found.passage
    assert 0 <= found.score <= 1
    assert 0 <= found.passage.coverage <= 1
    assert utf16_length(passage.text) <= _SNIPPET
    assert (
        passage.start_line
        == passage.stretches[0].start_line
        == 1 + text.count("\n", 0, passage.start)
    )
    assert passage.end_line == passage.stretches[-1].end_line
    shown, end = passage.text.split("\n"), passage.start
    for number, lines in enumerate(passage.stretches):
        assert number == 0 or shown.pop(0) == GAP.strip("\n")
        length = lines.end_line - lines.start_line + 1
        stretch, shown = "\n".join(shown[:length]), shown[length:]
        line = sum(len(one) + 1 for one in text.split("\n")[: lines.start_line - 1])
        start = text.index(stretch, max(end, line))
        assert number > 0 or start == passage.start
        assert text.count("\n", 0, start) == lines.start_line - 1
        end = start + len(stretch)
    assert not shown


def transcripts(data: bytes) -> None:
    descriptor = _file()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
    whole = read_stretch(descriptor, 0, len(data) + 1)
    assert len(whole.lines) == data.count(b"\n")
    assert whole.end == data.rfind(b"\n") + 1
    assert whole.digest == digest_of(descriptor, 0, whole.end)
    first = read_stretch(descriptor, 0, len(data) // 2)
    rest = read_stretch(descriptor, first.end, len(data) + 1)
    assert first.lines + rest.lines == whole.lines
    for line in whole.lines:
        _check_turn(line or b"")
    text = data.decode(errors="replace")
    assert redact(redact(text)) == redact(text)


def _check_turn(line: bytes) -> None:
    turn = render_turn(line)
    if turn is None:
        return
    assert turn.startswith(("User: ", "Assistant: "))
    assert not {"\n", "\r", "\0"} & set(turn)
    turn.encode()


@cache
def _file() -> int:
    return os.open(place("transcripts") / "session.jsonl", os.O_CREAT | os.O_RDWR)


class Host(LoopbackServer):
    daemon_threads = True  # a client may keep its connection until the process ends

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.raw: bytes | None = None
        """The whole answer, sent without a status line of ours; then the connection is closed."""
        super().__init__(_Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.close_connections()
        self.server_close()


class _Handler(LoopbackHandler):
    server: Host

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        host = self.server
        if host.raw is not None:
            self.wfile.write(host.raw)
            self.close_connection = True
            return
        self.send_response(host.status)
        self.send_header("content-type", "application/json")
        if host.status == 302:
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
        self.send_header("content-length", str(len(host.body)))
        self.end_headers()
        if host.status != 204:
            self.wfile.write(host.body)


def check_items(items: Sequence[Vector | ItemError], expected: int) -> None:
    assert len(items) == expected
    sizes = set()
    for item in items:
        if isinstance(item, ItemError):
            assert item.message
        else:
            assert item.typecode == "f"
            assert math.isclose(math.hypot(*item), 1, abs_tol=1e-5)
            sizes.add(len(item))
    assert len(sizes) <= 1


VendorName = Literal["openai", "gemini", "voyage"]

_ANSWERS = (200, 200, 200, 200, 200, 400, 401, 403, 404, 413, 429, 500, 503, 204, 302)
_TEXTS = ("alpha beta", "gamma", "delta")
_BASE = {"openai": "/v1", "gemini": "/v1beta", "voyage": "/v1"}
_KEY = "test-key-0123456789abcdef"


def _vendor(vendor: VendorName, data: bytes) -> None:
    portal, host = _portal(), _host()
    embedder = _embedder(vendor)
    host.status = _ANSWERS[data[0] % len(_ANSWERS)] if data else 200
    host.body = data[1:]
    try:
        batch = portal.call(embedder.embed_documents, _TEXTS)
    except ProviderError as error:
        assert error.message
        assert _KEY not in str(error)
        return
    check_items(batch.items, len(_TEXTS))
    assert isinstance(batch.tokens, int)
    assert batch.tokens >= 0


openai = partial(_vendor, "openai")
gemini = partial(_vendor, "gemini")
voyage = partial(_vendor, "voyage")


@cache
def _portal() -> BlockingPortal:
    context = start_blocking_portal()
    portal = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return portal


@cache
def _host() -> Host:
    host = Host()
    atexit.register(host.close)
    return host


@cache
def _embedder(vendor: VendorName) -> Any:
    block = remote(_host().origin + _BASE[vendor], _KEY)
    search = {"provider": vendor, "remote": block, "output_dimensionality": 3}
    embedder = provider(vendor).create(
        ProviderRequest(make_settings(place("vendors"), search=search), "primary")
    )
    atexit.register(_portal().call, embedder.aclose)
    return embedder


_STATUSES = (400, 401, 402, 403, 404, 408, 413, 422, 429, 429, 500, 503)
_SECRET = "canary-6b1f0d9e7a5c3824"


def refusals(data: bytes) -> None:
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


def batches(data: bytes) -> None:
    try:
        raw = _result_lines(data, len(data) or 1)
    except ProviderBadResponseError:
        return
    assert _result_lines(data, 1 + len(data) % 7) == raw
    lines: list[ResultLine] = [line for line in map(read_line, raw) if line is not None]
    if lines:
        results = results_of(lines, 3 if data[0] % 2 else None)
        assert [result.key for result in results] == [line.key for line in lines]
        check_items([result.item for result in results], len(lines))


def _result_lines(data: bytes, piece: int) -> list[bytes]:
    splitter = ResultLines()
    found: list[bytes] = []
    for start in range(0, len(data), piece):
        found += splitter.feed(data[start : start + piece])
    return [*found, splitter.end()]


def qmd_server(data: bytes) -> None:
    """Takes any bytes in place of an HTTP answer."""
    _host().raw = data
    _ask()


def qmd_answer(data: bytes) -> None:
    """Takes any body in a well-formed HTTP answer."""
    host = _host()
    host.raw, host.body = None, data
    _ask()


def _ask() -> None:
    async def ask() -> object:
        return await exchange(_host().port, "/query", {"q": "x"}, timeout_s=5.0)

    try:
        answered = anyio.run(ask)
    except QmdUnavailableError as error:
        assert error.message
        return
    _check_rows_of_qmd(rows_of_answer(answered) or ())


def _check_rows_of_qmd(rows: Sequence[ResultRow]) -> None:
    for row in rows:
        assert row.collection
        assert row.path
        assert 0 <= row.score <= 1
        assert row.line is None or row.line > 0


def gguf(data: bytes) -> None:
    """Takes any bytes after the four that mark a model file."""
    path = place("gguf") / "model.gguf"
    path.write_bytes(b"GGUF" + data)
    try:
        model = read_model(path, Wishes())
    except ProviderUnavailableError as error:
        assert error.remedy
        return
    assert model.max_tokens > 0
    assert model.fingerprint


def frames(data: bytes) -> None:
    """Takes any bytes on the pipe, in either direction."""
    for kind in (Reply, Request):
        whole = _messages(kind, data, len(data) or 1)
        assert _messages(kind, data, 1 + len(data) % 7) == whole


def _messages(kind: Any, data: bytes, piece: int) -> list[Any]:
    reader, found = FrameReader(kind), []
    try:
        for start in range(0, len(data), piece):
            found += reader.feed(data[start : start + piece])
    except ProtocolError:
        return found
    return found


@cache
def place(name: str) -> Path:
    """Returns a directory, always the same one for the same name."""
    directory = tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


_SERVER = {"command": "/opt/memory-gateway", "args": ["serve", "--notes", "/home/me/notes"]}
_OURS = "memory-gateway"


def client_files(data: bytes) -> None:
    """Takes a client's configuration; the first byte chooses between JSON with comments and TOML."""
    client = CLIENTS["codex" if data[:1] == b"t" else "zed"]
    text, file = data[1:].decode("utf-8", "replace"), Path("/home/me/settings")
    try:
        before = servers_in(client, text, file)
        after = with_server(client, text, file, _OURS, _SERVER) if _OURS not in before else text
    except ConfigInvalidError as error:
        assert error.remedy
        assert str(file) in str(error)
        return
    assert servers_in(client, after, file) == {_OURS: _SERVER, **before}
    try:
        back = without_server(client, after, file, _OURS, bare=not before)
    except ConfigInvalidError:
        assert _OURS in before  # as somebody else wrote it
        return
    assert servers_in(client, back, file) == {n: one for n, one in before.items() if n != _OURS}
    if before and _OURS not in before:
        assert back == text


def host_events(data: bytes) -> None:
    """Takes an event of the host's database: as it is, packed, and as bytes that claim to be packed."""
    packed = pack(data)
    assert decompressed(packed, len(data)) == data
    assert decompressed(packed, len(data) + 1) is None
    assert not data or decompressed(packed, len(data) - 1) is None
    claimed = int.from_bytes(data[:2], "big")
    found = decompressed(data[2:], claimed)
    assert found is None or len(found) == claimed
    shown = render_event(data)
    assert shown is None or isinstance(shown, str)
