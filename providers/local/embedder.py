"""The provider `local`: whether it can be used, making it, and embedding through the worker process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from providers.installing import install_remedy
from providers.local.model import Model, Wishes, read_model, shown
from providers.local.models import configured_models, locate, obtain, take
from providers.local.models.references import (
    LLAMA,
    FileReference,
    LocalEngine,
    engine_of,
    parse_reference,
)
from providers.local.supervisor import ModelReplacedError, Patience, Supervisor
from providers.provider_interface import (
    Download,
    EmbeddedBatch,
    Embedder,
    Fingerprint,
    InputLimits,
    ItemError,
    LocalModelState,
    LocalState,
    ProviderBadResponseError,
    ProviderCandidate,
    ProviderError,
    ProviderNotReadyError,
    ProviderRejectedError,
    ProviderRequest,
    ProviderUnavailableError,
    Purpose,
    Vector,
    unusable,
    without_lone_surrogates,
)

_LIMITS = InputLimits(
    # A longer text is cut by the worker, so none has to go alone.
    max_input_tokens=1 << 30,
    max_items=64,
    # Some seconds of work for a model of medium size, so that requests end within their time.
    max_request_tokens=4096,
    max_request_bytes=1 << 20,
)


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """The configuration of the local provider."""

    reference: str = field(repr=False)
    """A path, or the address of the model (`hf:` or http(s)), which may hold a secret."""
    name: str
    """The reference as it may be shown."""
    cache_dir: Path
    wishes: Wishes
    environment: Mapping[str, str] = field(repr=False)


class LocalEmbedder:
    """Implements `providers.provider_interface.Embedder`. Belongs to one event loop, except for `report`."""

    def __init__(self, spec: LocalSpec, *, patience: Patience | None = None) -> None:
        """Blocking: reads the header of the model file, if there is one, so that the fingerprint is known."""
        self._spec = spec
        self._supervisor = Supervisor(spec.environment, patience=patience)
        self._looking = anyio.Lock()
        self._fetching = False
        """True while a download is under way, or is being tried."""
        self._progress: tuple[int, int | None] | None = None
        self._model: Model | None = None
        self._doubtful = False
        """True if the file has to be read again, because the worker could not use it."""
        try:
            self._find()
        except ProviderError:
            self._model = None  # it is raised again when the model is needed

    @property
    def fingerprint(self) -> Fingerprint:
        """The model's fingerprint; without a model file, a placeholder that fits no vectors."""
        if self._model is not None:
            return self._model.fingerprint
        return Fingerprint(
            provider="local",
            model=self._spec.name,
            endpoint=engine_of(self._spec.reference).name,
            variant=("not there yet",),
        )

    @property
    def dimensions(self) -> int | None:
        """The length of the vectors, not taken from the model's files: a network may end in another width."""
        return self._spec.wishes.dimensions or self._supervisor.dimensions

    @property
    def limits(self) -> InputLimits:
        return _LIMITS

    @property
    def is_prepared(self) -> bool:
        model = self._model
        return model is not None and not self._doubtful and model.is_as_read

    async def prepare(self) -> None:
        """Gets the model file, by a download if need be. Raises `ProviderError`."""
        async with self._looking:
            if self.is_prepared:
                return
            spec = self._spec
            self._fetching = True
            try:
                path = await obtain(
                    spec.reference,
                    spec.cache_dir,
                    environment=spec.environment,
                    on_progress=self._note_progress,
                )
            finally:
                self._fetching, self._progress = False, None
            await run_sync(self._read, path)

    async def run(self) -> None:
        await self._supervisor.run()

    async def embed_documents(self, texts: Sequence[str]) -> EmbeddedBatch:
        return await self._embed("document", texts)

    async def embed_query(self, text: str) -> Vector:
        (item,) = (await self._embed("query", [text])).items
        if not isinstance(item, ItemError):
            return item
        if item.kind == ProviderBadResponseError.kind:
            raise ProviderBadResponseError(item.message)
        raise ProviderRejectedError(item.message)

    async def aclose(self) -> None:
        """Does nothing: the worker ends with `run`."""

    def report(self) -> LocalState:
        model, progress = self._model, self._progress
        return LocalState(
            reference=self._spec.name,
            worker=self._supervisor.state(),
            model=None if model is None else _describe(model, self.dimensions),
            download=progress and Download(bytes=progress[0], total_bytes=progress[1]),
        )

    async def _embed(self, purpose: Purpose, texts: Sequence[str]) -> EmbeddedBatch:
        while True:
            model = await self._usable()
            clean = [model.prompts.apply(purpose, without_lone_surrogates(text)) for text in texts]
            try:
                return await self._supervisor.embed(model.order, purpose, clean)
            except ModelReplacedError:
                continue
            except ProviderUnavailableError:
                self._doubtful = True
                raise

    async def _usable(self) -> Model:
        """Returns the model. Raises `ProviderError`, also if it would have to be downloaded first."""
        if not self.is_prepared and not self._fetching:
            async with self._looking:
                if not self.is_prepared:
                    await run_sync(self._find)
        if self._model is None:
            remedy = "A running gateway downloads it; so does `memory-gateway models pull`."
            raise ProviderNotReadyError(f"{self._missing()}.", remedy=remedy)
        return self._model

    def _missing(self) -> str:
        if self._progress is None:
            return f"The model {self._spec.name} is not there yet"
        done, total = self._progress
        share = f", {done / total:.0%} are there" if total else f", {done >> 20} MiB are there"
        return f"The model {self._spec.name} is being downloaded{share}"

    def _find(self) -> None:
        """Reads the file if it is on the disk. Raises `ProviderUnavailableError`."""
        path = take(self._spec.reference, self._spec.cache_dir)
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        self._model = read_model(path, self._spec.wishes, self._spec.reference)
        self._doubtful = False

    def _note_progress(self, done: int, total: int | None) -> None:
        self._progress = (done, total)


def _describe(model: Model, dimensions: int | None) -> LocalModelState:
    return LocalModelState(
        file=str(model.path),
        sha256=model.sha256,
        quantisation=model.quantisation,
        engine=model.engine,
        dimensions=dimensions or model.width,
        context_tokens=model.context_tokens,
        max_tokens=model.max_tokens,
        query_prompt=model.prompts.query,
        document_prompt=model.prompts.document,
    )


def assess(request: ProviderRequest) -> ProviderCandidate:
    models = configured_models(request.settings, os.environ)
    engine = engine_of(models.reference)
    if engine.missing is not None:
        return unusable("local", _not_installed(engine, engine.missing, models.reference))
    try:
        path = locate(models.reference, models.cache_dir)
    except ProviderError as error:
        return unusable("local", error)
    name = shown(models.reference)
    lacks = None
    if path is None:
        is_file = isinstance(parse_reference(models.reference), FileReference)
        lacks = f"The model {name} {'is not there' if is_file else 'is yet to be fetched'}."
    return ProviderCandidate(
        provider="local",
        usable=True,
        reason=lacks or f"The model is {path}.",
        model=name,
        lacks=lacks,
    )


def create(request: ProviderRequest) -> Embedder:
    search, primary = request.settings.search, request.role == "primary"
    wishes = Wishes(
        dimensions=search.output_dimensionality if primary else None,
        query_prompt=search.query_input_type if primary else None,
        document_prompt=search.document_input_type if primary else None,
        chunk_tokens=search.chunking.tokens,
    )
    models = configured_models(request.settings, os.environ)
    name = shown(models.reference)
    spec = LocalSpec(models.reference, name, models.cache_dir, wishes, models.environment)
    return LocalEmbedder(spec)


def _not_installed(engine: LocalEngine, module: str, reference: str) -> ProviderUnavailableError:
    if engine is not LLAMA:
        return ProviderUnavailableError(
            f"Local embeddings are not installed ({module} is missing).",
            remedy=install_remedy("local"),
        )
    return ProviderUnavailableError(
        f"The model {shown(reference)} is a GGUF file, which takes llama-cpp-python ({module} is missing).",
        remedy=f"{install_remedy('llama')}. Or take the model of `memory-gateway models suggest`, which needs no "
        "compiler: remove local.modelPath.",
    )
