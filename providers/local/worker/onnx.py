"""ONNX Runtime as this worker uses it: one session, and each text computed by itself in one thread.

Measured (`./scripts/bench engines`): texts in one batch are no faster than one by one, and slower where short ones are
padded; and in a model of 8 bits each text's vector would depend on the others in its batch. Several texts are computed
at once, each on a processor of its own, so that no thread ever waits for another.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from providers.local.worker import Lane, Open
from providers.local.worker.lanes import EngineError, Text, normalised, processors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_THREADS: Final = 4
_FATAL: Final = 4
_MEAN, _CLS = 1, 2
_IDS, _MASK, _TYPES, _POSITIONS = "input_ids", "attention_mask", "token_type_ids", "position_ids"
_NO_MEMORY: Final = ("bad_alloc", "allocate memory", "out of memory", "std::length_error")


class OnnxModel:
    """Implements `lanes.LoadedEngine`."""

    def __init__(self, order: Open) -> None:
        """Raises EngineError."""
        try:
            runtime: Any = importlib.import_module("onnxruntime")
            tokenizers: Any = importlib.import_module("tokenizers")
        except (ImportError, OSError) as error:
            raise EngineError(f"ONNX Runtime cannot be loaded: {error}") from None
        self.document_threads = min(_MOST_THREADS, processors())
        self._order = order
        self._tokenizer = _opened(tokenizers.Tokenizer.from_file, order.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(order.max_tokens)
        self._tokenizer.encode_special_tokens = True  # words of a note that look like them are text
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL
        self._session = _opened(
            lambda path: runtime.InferenceSession(path, options, ["CPUExecutionProvider"]),
            order.path,
        )
        self._inputs = {one.name for one in self._session.get_inputs()}
        unknown = self._inputs - {_IDS, _MASK, _TYPES, _POSITIONS}
        if unknown or _IDS not in self._inputs:
            raise EngineError(f"the model reads {', '.join(sorted(self._inputs))}, not texts")
        self._output, self._is_pooled, self.width = self._chosen_output()

    def _chosen_output(self) -> tuple[str, bool, int]:
        """Returns the output with one vector for each text, or else for each token; and its width."""
        outputs = self._session.get_outputs()
        for rank in (2, 3):
            for one in outputs:
                if len(one.shape) == rank and isinstance(one.shape[-1], int):
                    return one.name, rank == 2, one.shape[-1]
        raise EngineError("the model gives no vectors for texts")

    def settle(self, tokens: Sequence[int]) -> None:
        pass

    def read(self, text: str) -> Text:
        encoding = self._tokenizer.encode(text)
        if not encoding.ids:
            raise EngineError("the text has no tokens")
        return Text(encoding.ids, is_cut=bool(encoding.overflowing))

    def batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        return ([position] for position in range(len(lengths)))

    def embed(self, lane: Lane, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        del lane
        return normalised(np.stack([self._vector(tokens) for tokens in texts]))

    def _vector(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        ids = np.array([tokens], np.int64)
        given = {
            _IDS: ids,
            _MASK: np.ones_like(ids),
            _TYPES: np.zeros_like(ids),
            _POSITIONS: np.arange(ids.size, dtype=np.int64)[None],
        }
        feed = {name: given[name] for name in self._inputs}
        try:
            (found,) = self._session.run([self._output], feed)
        except Exception as error:  # noqa: BLE001 - what it raises has no class in common
            if any(words in str(error) for words in _NO_MEMORY):
                raise MemoryError from None
            raise EngineError(f"ONNX Runtime refused the text ({_first_line(error)})") from None
        row = found[0] if self._is_pooled else self._pooled(found[0])
        return np.asarray(row[: self._order.dimensions or self.width], np.float32)

    def _pooled(self, rows: NDArray[Any]) -> NDArray[Any]:
        if self._order.pooling == _MEAN:
            return np.asarray(rows.mean(axis=0))
        return np.asarray(rows[0 if self._order.pooling == _CLS else -1])


def _opened(opening: Any, path: str) -> Any:
    try:
        return opening(path)
    except Exception as error:  # noqa: BLE001 - what both libraries raise has no class in common
        raise EngineError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:400]
