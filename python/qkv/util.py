# SPDX-License-Identifier: MIT
"""Similarities and searches of vectors, with the names and defaults of sentence_transformers.util.

    from qkv import SentenceTransformer, util
    util.semantic_search(model.encode(queries), model.encode(texts), top_k=5)

Vectors are arrays [n][width] of numpy or torch, or lists of them; results are tensors if an argument is a tensor, otherwise
numpy arrays, in float64 if an argument is.  Without numpy the similarities are memoryviews and the other functions raise UnsupportedError.
"""
import enum
import math
import operator
import sys
from typing import Any, Callable, Dict, List, Optional

from ._array import _numpy, make
from ._errors import UnsupportedError, UsageError
from ._library import choice, integer, listed, number, shown
from ._types import ArrayLike, Texts

Score = Callable[[Any, Any], Any]


class SimilarityFunction(enum.Enum):
    """The names of similarities; DOT is the same as DOT_PRODUCT."""
    COSINE = "cosine"
    DOT_PRODUCT = "dot"
    DOT = "dot"
    EUCLIDEAN = "euclidean"
    MANHATTAN = "manhattan"

    @staticmethod
    def to_similarity_fn(similarity_function: Any) -> Score:
        """Returns the function from vectors [n][width] and [m][width] to their similarities [n][m]."""
        return similarity_of(name_of(similarity_function), False)

    @staticmethod
    def to_similarity_pairwise_fn(similarity_function: Any) -> Score:
        """Returns the function from vectors [n][width] and [n][width] to the similarities [n] of vectors 0 and 0, 1 and 1, ..."""
        return similarity_of(name_of(similarity_function), True)

    @staticmethod
    def possible_values() -> List[str]:
        """Returns all names."""
        return list(SIMILARITIES)


def name_of(value):
    """Returns the checked name of a similarity, of a str or a SimilarityFunction, also one of sentence-transformers."""
    value = getattr(value, "value", value)
    choice(value, "similarity_fn_name", SIMILARITIES)
    return value


def is_tensor(x):
    """Returns whether x is a torch tensor, or a list of them as encode(convert_to_numpy=False) returns."""
    torch = sys.modules.get("torch")
    x = x[0] if isinstance(x, list) and x else x
    return torch is not None and isinstance(x, torch.Tensor)


def as_array(values, tensor):
    """Returns an array of floats as numpy array, or as torch tensor; without numpy as memoryview."""
    if not tensor:
        return values
    torch = need_torch("convert_to_tensor")
    if isinstance(values, memoryview):
        return torch.frombuffer(values.cast("B"), dtype=torch.float32).reshape(values.shape)
    return torch.as_tensor(values, device="cpu")


def need_torch(name):
    try:
        import torch
    except ImportError:
        raise UnsupportedError(f"{name}: torch is not installed") from None
    return torch


def need_numpy(name):
    numpy = _numpy()
    if numpy is None:
        raise UnsupportedError(f"{name}: numpy is not installed")
    return numpy


def is_double(x):
    """Returns whether x is an array of float64, or a list of them."""
    x = x[0] if isinstance(x, list) and x else x
    return str(getattr(x, "dtype", "")).endswith("float64")


def vectors(x, name, dtype=None):
    """Returns an array of vectors [n][width], or one vector, as a numpy array of a type; None: float64 if it is, else float32."""
    numpy, dtype = need_numpy(name), dtype or ("float64" if is_double(x) else "float32")
    try:
        if is_tensor(x) and not isinstance(x, list):  # numpy has no bfloat16
            x = (x.detach() if is_double(x) else x.detach().float()).resolve_neg()
        with numpy.errstate(over="ignore"):  # a number of double that is none of float is infinite
            x = numpy.asarray(x, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:  # of torch: a tensor that is quantized or has no memory
        raise UsageError(f"{name}: expected arrays of vectors: {error}") from None
    if not 1 <= x.ndim <= 2:
        raise UsageError(f"{name}: expected arrays of vectors, found shape {x.shape}")
    return x


def plain_vectors(x, name):
    """As vectors(), without numpy: a list of lists of floats."""
    rows = [listed(row, name) for row in x] if isinstance(x, (list, tuple)) else listed(x, name)
    rows = [rows] if isinstance(rows, list) and not any(isinstance(row, (list, tuple)) for row in rows) else rows
    if not isinstance(rows, list) or not all(isinstance(row, (list, tuple)) and len(row) == len(rows[0]) for row in rows):
        raise UsageError(f"{name}: expected arrays of vectors, found {shown(x)}")
    return [[number(value, name) for value in row] for row in rows]


def plain_similarity(name, a, b):
    """Returns the similarity of two vectors, without numpy."""
    if name in ("cosine", "dot"):
        length = lambda x: max(math.sqrt(sum(map(operator.mul, x, x))), 1e-12)
        return sum(map(operator.mul, a, b)) / (length(a) * length(b) if name == "cosine" else 1)
    differences = [abs(x - y) for x, y in zip(a, b)]
    return -math.sqrt(sum(d * d for d in differences)) if name == "euclidean" else -sum(differences)


def plain_similarities(name, a, b, pairwise):
    """Returns the similarities of lists of vectors as a memoryview, without numpy."""
    if pairwise:  # the vector of a list of one goes with all others
        shape = [max(len(a), len(b))]
        found = [plain_similarity(name, a[i % len(a)], b[i % len(b)]) for i in range(*shape)]
    else:
        found, shape = [plain_similarity(name, x, y) for x in a for y in b], [len(a), len(b)]
    made, _ = make(None, shape, "f32")
    flat = made.cast("B").cast("f")
    for i, value in enumerate(found):
        flat[i] = value
    return made


def unit(x):
    numpy = _numpy()
    return x / numpy.maximum(numpy.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def cosine(a, b, pairwise):
    return dot(unit(a), unit(b), pairwise)


def dot(a, b, pairwise):
    return (a * b).sum(1) if pairwise else a @ b.T


def distance(power):
    def similarity(a, b, pairwise):
        numpy = _numpy()
        if not pairwise:
            return numpy.stack([similarity(row[None], b, True) for row in a]) if len(a) else numpy.zeros((0, len(b)), "f")
        return -(abs(a - b) ** power).sum(1) ** (1 / power)
    return similarity


SIMILARITIES = {"cosine": cosine, "dot": dot, "euclidean": distance(2), "manhattan": distance(1)}


def similarity_of(name, pairwise):
    """Returns the similarity of a name as a function of two arrays of vectors."""
    def similarity(a: ArrayLike, b: ArrayLike) -> Any:
        numpy, tensor = _numpy(), is_tensor(a) or is_tensor(b)
        x, y = (numpy.atleast_2d(vectors(v, "similarity")) if numpy else plain_vectors(v, "similarity") for v in (a, b))
        shapes = [v.shape if numpy else (len(v), len(v[0])) for v in (x, y)]
        if shapes[0][1] != shapes[1][1] or pairwise and len(x) != len(y) and 1 not in (len(x), len(y)):
            raise UsageError(f"similarity: expected vectors of equal width, found shapes {shapes[0]} and {shapes[1]}")
        return as_array(SIMILARITIES[name](x, y, pairwise) if numpy else plain_similarities(name, x, y, pairwise), tensor)
    return similarity


def cos_sim(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the cosines [n][m] of vectors a [n][width] and b [m][width]."""
    return similarity_of("cosine", False)(a, b)


pytorch_cos_sim = cos_sim


def dot_score(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the dot products [n][m] of vectors a [n][width] and b [m][width]."""
    return similarity_of("dot", False)(a, b)


def euclidean_sim(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the negative Euclidean distances [n][m] of vectors a [n][width] and b [m][width]."""
    return similarity_of("euclidean", False)(a, b)


def manhattan_sim(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the negative sums of absolute differences [n][m] of vectors a [n][width] and b [m][width]."""
    return similarity_of("manhattan", False)(a, b)


def pairwise_cos_sim(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the cosines [n] of vectors 0 and 0, 1 and 1, ... of a [n][width] and b [n][width]."""
    return similarity_of("cosine", True)(a, b)


def pairwise_dot_score(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the dot products [n] of vectors 0 and 0, 1 and 1, ... of a [n][width] and b [n][width]."""
    return similarity_of("dot", True)(a, b)


def pairwise_euclidean_sim(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the negative Euclidean distances [n] of vectors 0 and 0, 1 and 1, ... of a [n][width] and b [n][width]."""
    return similarity_of("euclidean", True)(a, b)


def pairwise_manhattan_sim(a: ArrayLike, b: ArrayLike) -> Any:
    """Returns the negative sums of absolute differences [n] of vectors 0 and 0, 1 and 1, ... of a [n][width] and b [n][width]."""
    return similarity_of("manhattan", True)(a, b)


def normalize_embeddings(embeddings: ArrayLike) -> Any:
    """Returns vectors [n][width], or one vector, of length 1; a vector of zeros stays zero."""
    x = vectors(embeddings, "embeddings")
    return as_array(unit(x if x.ndim == 2 else x[None]).reshape(x.shape), is_tensor(embeddings))


def truncate_embeddings(embeddings: ArrayLike, truncate_dim: Optional[int]) -> Any:
    """Returns the first truncate_dim numbers of each vector; None: all."""
    keep = None if truncate_dim is None else integer(truncate_dim, "truncate_dim", 1)
    try:
        return embeddings[..., :keep]
    except Exception as error:  # a foreign method may raise anything
        raise UsageError(f"embeddings: expected an array of vectors, found {shown(embeddings)}: {error}") from None


PRECISIONS = dict.fromkeys(("float32", "int8", "uint8", "binary", "ubinary"))


def quantize_embeddings(embeddings: ArrayLike, precision: str, ranges: Optional[ArrayLike] = None,
                        calibration_embeddings: Optional[ArrayLike] = None) -> Any:
    """Quantises vectors [n][width] to "int8", "uint8", or one bit per number: "ubinary", or "binary" of signed bytes.

    ranges [2][width]: the least and the largest value of each number; None: computed from
    calibration_embeddings or, without it, from the vectors, of which there must then be two.
    """
    numpy, x = need_numpy("precision"), vectors(embeddings, "embeddings", "float32")
    choice(precision, "precision", PRECISIONS)
    if precision == "float32":
        return x
    if precision.endswith("binary"):
        bits = numpy.packbits(x > 0, axis=-1)
        return bits if precision == "ubinary" else (bits - 128).astype(numpy.int8)
    if ranges is None:
        known = x if calibration_embeddings is None else vectors(calibration_embeddings, "calibration_embeddings", "float32")
        if calibration_embeddings is None and (x.ndim == 1 or len(x) == 1):
            raise UsageError(f"precision: the ranges of {precision} need several vectors: call util.quantize_embeddings with ranges or "
                             "calibration_embeddings")
        ranges = numpy.stack([known.min(0), known.max(0)]) if len(known) else numpy.zeros((2, x.shape[-1]), "f")
    ranges = vectors(ranges, "ranges", "float32")
    if ranges.ndim != 2 or len(ranges) < 2 or ranges.shape[1:] != x.shape[-1:]:
        raise UsageError(f"ranges: expected shape (2, {x.shape[-1]}), found {ranges.shape}")
    low, high = ranges[:2]
    steps = numpy.where(high == low, numpy.float32(1), (high - low) / 255)
    level = numpy.clip(numpy.floor((x - low) / steps), 0, 255)
    return level.astype(numpy.uint8) if precision == "uint8" else (level - 128).astype(numpy.int8)


def semantic_search(query_embeddings: ArrayLike, corpus_embeddings: ArrayLike, query_chunk_size: int = 100,
                    corpus_chunk_size: int = 500000, top_k: int = 10, score_function: Score = cos_sim) -> List[List[Dict[str, Any]]]:
    """Finds the top_k most similar vectors of a corpus for each query: a list of {"corpus_id", "score"} per query, best first."""
    numpy = need_numpy("semantic_search")
    queries, corpus = (numpy.atleast_2d(vectors(x, n)) for x, n in ((query_embeddings, "query_embeddings"), (corpus_embeddings, "corpus_embeddings")))
    rows, columns = integer(query_chunk_size, "query_chunk_size", 1), integer(corpus_chunk_size, "corpus_chunk_size", 1)
    top_k = integer(top_k, "top_k", 1)
    if not callable(score_function):
        raise UsageError(f"score_function: expected a function, found {shown(score_function)}")
    # A function of the caller may expect tensors, as sentence_transformers.util.cos_sim does.
    given = (lambda x: x) if getattr(score_function, "__module__", None) == __name__ else (lambda x: as_array(x, "torch" in sys.modules))
    found: List[List[Dict[str, Any]]] = [[] for _ in queries]
    for first in range(0, len(corpus), columns):
        for begin in range(0, len(queries), rows):
            a, b = queries[begin:begin + rows], corpus[first:first + columns]
            scores = vectors(score_function(given(a), given(b)), "score_function")
            if scores.shape != (len(a), len(b)):
                raise UsageError(f"score_function: expected an array of shape {(len(a), len(b))}, found {scores.shape}")
            for i, row in enumerate(scores, begin):
                found[i] += [{"corpus_id": int(j) + first, "score": float(row[j])} for j in largest(row, top_k)]
    return [sorted(hits, key=lambda hit: -hit["score"])[:top_k] for hits in found]


def largest(row, n):
    """Returns the indices of the n largest numbers, the largest first, of equal ones the smallest index first."""
    numpy = _numpy()
    if n < len(row):
        least = numpy.partition(row, len(row) - n)[len(row) - n]
        chosen = numpy.nonzero(row >= least)[0]
        if len(chosen) >= n:  # NaN is neither above nor below
            return chosen[numpy.argsort(-row[chosen], kind="stable")[:n]]
    return numpy.argsort(-row, kind="stable")[:n]


def paraphrase_mining(model: Any, sentences: Texts, show_progress_bar: bool = False, batch_size: int = 32, query_chunk_size: int = 5000,
                      corpus_chunk_size: int = 100000, max_pairs: int = 500000, top_k: int = 100, score_function: Score = cos_sim,
                      truncate_dim: Optional[int] = None, prompt_name: Optional[str] = None,
                      prompt: Optional[str] = None) -> List[List[Any]]:
    """Finds the most similar pairs of texts: a list of [score, i, j], best first, of the top_k neighbours of each text."""
    if not callable(getattr(model, "encode", None)):
        raise UsageError(f"model: expected a SentenceTransformer, found {shown(model)}")
    found = model.encode(sentences, show_progress_bar=show_progress_bar, batch_size=batch_size, prompt_name=prompt_name, prompt=prompt,
                         truncate_dim=truncate_dim)
    return paraphrase_mining_embeddings(found, query_chunk_size, corpus_chunk_size, max_pairs, top_k, score_function)


def paraphrase_mining_embeddings(embeddings: ArrayLike, query_chunk_size: int = 5000, corpus_chunk_size: int = 100000,
                                 max_pairs: int = 500000, top_k: int = 100, score_function: Score = cos_sim) -> List[List[Any]]:
    """Finds the most similar pairs of vectors: a list of [score, i, j], best first, of the top_k neighbours of each vector."""
    hits = semantic_search(embeddings, embeddings, query_chunk_size, corpus_chunk_size, integer(top_k, "top_k", 1) + 1, score_function)
    pairs: Dict[Any, float] = {}
    for i, row in enumerate(hits):
        for hit in [hit for hit in row if hit["corpus_id"] != i][:top_k]:
            pairs.setdefault((min(i, hit["corpus_id"]), max(i, hit["corpus_id"])), hit["score"])
    best = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:integer(max_pairs, "max_pairs", 1)]
    return [[score, i, j] for (i, j), score in best]
