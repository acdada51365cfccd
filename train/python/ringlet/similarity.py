"""Similarities of embeddings and their precisions, by Sentence Transformers' names and definitions."""
import warnings
from typing import Any, Tuple

import numpy

Array = numpy.ndarray[Any, Any]

PRECISIONS = ["float32", "int8", "uint8", "binary", "ubinary"]
_CALIBRATION = 100  # texts, below which ranges of int8 are a guess
_BLOCK = 1 << 24  # numbers of a difference that are in memory at a time


def _matrices(a: Any, b: Any) -> Tuple[Array, Array]:
    both = [numpy.atleast_2d(numpy.asarray(x, "float32")) for x in (a, b)]
    if both[0].ndim != 2 or both[0].shape[1] != both[1].shape[-1]:
        raise ValueError(f"similarity: embeddings of shapes {both[0].shape} and {both[1].shape}, expected equal widths")
    return both[0], both[1]


def _unit(a: Array) -> Array:
    return a / numpy.maximum(numpy.linalg.norm(a, axis=-1, keepdims=True), 1e-12)


def _distance(name: str, difference: Array) -> Array:
    return -(numpy.linalg.norm(difference, axis=-1) if name == "euclidean" else numpy.abs(difference).sum(-1))


def table(name: str, a: Any, b: Any) -> Array:
    """Of each row of a (n, d) with each of b (m, d): (n, m)."""
    a, b = _matrices(a, b)
    if name == "cosine":
        a, b = _unit(a), _unit(b)
    if name in ("cosine", "dot"):
        return a @ b.T
    found = numpy.empty((len(a), len(b)), "float32")
    step = max(1, _BLOCK // max(1, b.size))
    for i in range(0, len(a), step):
        found[i:i + step] = _distance(name, a[i:i + step, None] - b)
    return found


def paired(name: str, a: Any, b: Any) -> Array:
    """Of row i of a with row i of b: (n)."""
    a, b = _matrices(a, b)
    if len(a) != len(b):
        raise ValueError(f"similarity_pairwise: {len(a)} and {len(b)} embeddings")
    if name == "cosine":
        a, b = _unit(a), _unit(b)
    return (a * b).sum(-1) if name in ("cosine", "dot") else _distance(name, a - b)


def quantize(embeddings: Array, precision: str) -> Array:
    """(n, d) float32 as 8 bits a number, by the range of each column, or as a bit a number."""
    if precision == "float32":
        return embeddings
    if precision.endswith("binary"):
        bits = numpy.packbits(embeddings > 0, axis=-1)
        return bits if precision == "ubinary" else (bits.astype("int16") - 128).astype("int8")
    if len(embeddings) < _CALIBRATION:
        warnings.warn(f"precision {precision!r}: the ranges are of {len(embeddings)} embeddings; "
                      f"{_CALIBRATION} or more are better", stacklevel=3)
    low = embeddings.min(axis=0, initial=numpy.inf)
    steps = (embeddings.max(axis=0, initial=-numpy.inf) - low) / 255
    levels = ((embeddings - low) / numpy.where(steps > 0, steps, 1)).clip(0, 255)
    # Both round towards 0: int8 is not uint8 - 128.
    return levels.astype("uint8") if precision == "uint8" else (levels - 128).astype("int8")
