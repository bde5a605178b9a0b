"""Gradients of the logits of drawn pairs, each class row read and written once per batch.

For pairs s = (query q, class i) with gradient g_s:  ∂/∂θ_i += g_s x_q  and  ∂/∂x_q += g_s θ_i.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import inline, kernel, threads_for
from softhash.kernels.score import CHUNKS_PER_THREAD, PAIRS_PER_THREAD, expect, sort_by_class

PAIRS_AHEAD = 4


@inline
def add_scaled(target, at, scale, source, row):
    """target[at] += scale · source[row]."""
    for k in range(source.shape[1]):
        target[at, k] += scale * source[row, k]


@kernel(fastmath=False)
def _class_gradients(gradient, queries, position, owner, starts, places, n_chunks, rows, bias):
    n = places.shape[0]
    for c in numba.prange(n_chunks):
        for k in range(c * n // n_chunks, (c + 1) * n // n_chunks):
            i = places[k]
            for slot in range(starts[k], starts[k + 1]):
                g = gradient[position[slot]]
                add_scaled(rows, i, g, queries, owner[slot])
                bias[i] += g


@kernel(fastmath=False)
def _query_gradients(gradient, weights, offsets, ids, n_chunks, out):
    n_queries = offsets.shape[0] - 1
    for c in numba.prange(n_chunks):
        for q in range(c * n_queries // n_chunks, (c + 1) * n_queries // n_chunks):
            for s in range(offsets[q], offsets[q + 1]):
                expect(weights, ids[min(s + PAIRS_AHEAD, ids.shape[0] - 1)])
                add_scaled(out, q, gradient[s], weights, ids[s])


def by_class(offsets: NDArray, ids: NDArray, n_classes: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Pairs in class order: (position, query) of each, the classes that occur, and where the pairs of each start."""
    position, owner = sort_by_class(offsets, ids, n_classes)
    ordered = ids[position]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    return position, owner, ordered[first], np.append(first, len(ids))


def class_gradients(
    gradient: NDArray, queries: NDArray, offsets: NDArray, ids: NDArray, n_classes: int, dense: bool
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """(classes, ∂/∂θ rows, ∂/∂b): of the classes that occur, or of all N where `dense`."""
    position, owner, classes, starts = by_class(offsets, ids, n_classes)
    places = classes if dense else np.arange(len(classes), dtype=np.int32)
    n_rows = n_classes if dense else len(classes)
    rows, bias = np.zeros((n_rows, queries.shape[1]), np.float32), np.zeros(n_rows, np.float32)
    with threads_for(len(ids) // PAIRS_PER_THREAD) as threads:
        n_chunks = CHUNKS_PER_THREAD * threads
        _class_gradients(gradient, queries, position, owner, starts, places, n_chunks, rows, bias)
    return classes, rows, bias


def query_gradients(gradient: NDArray, weights: NDArray, offsets: NDArray, ids: NDArray) -> NDArray[np.float32]:
    """∂/∂x (Q, d)."""
    out = np.zeros((len(offsets) - 1, weights.shape[1]), np.float32)
    with threads_for(len(ids) // PAIRS_PER_THREAD) as threads:
        _query_gradients(gradient, weights, offsets, ids, CHUNKS_PER_THREAD * threads, out)
    return out
