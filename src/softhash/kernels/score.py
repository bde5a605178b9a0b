"""Inner products of queries with the classes drawn for them, given as CSR pairs.

Two orders, same answers to the last bit: by query, which reads a row for every pair, and by class, which reads each
row from memory once per batch and all its queries from cache. The second pays once rows recur.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._bits import prefetch
from softhash.kernels._jit import exact_inline, inline, kernel, threads_for

CHUNKS_PER_THREAD = 8
PAIRS_WORTH_SORTING = 4_096
PAIRS_PER_THREAD = 1_024
PAIRS_AHEAD = 6
LINE = 16
LINES_AHEAD = 8


@inline
def dot(rows, i, queries, q):
    """θ_i·x_q in float32. Indices, not slices: a slice costs an atomic reference count that threads contend for."""
    total = np.float32(0)
    for k in range(rows.shape[1]):
        total += rows[i, k] * queries[q, k]
    return total


@exact_inline
def expect(rows, i):
    """Start fetching a row: its first lines, after which the machine sees the pattern."""
    for k in range(0, min(rows.shape[1], LINE * LINES_AHEAD), LINE):
        prefetch(rows, i, k)


@kernel(parallel=False, fastmath=False)
def sort_by_class(offsets, ids, n_classes):
    """Pairs in class order: (position in the CSR arrays, query) of each, and where each class starts."""
    starts = np.zeros(n_classes + 1, np.int64)
    for i in ids:
        starts[i + 1] += 1
    for i in range(n_classes):
        starts[i + 1] += starts[i]
    position = np.empty(ids.shape[0], np.int64)
    owner = np.empty(ids.shape[0], np.int32)
    for q in range(offsets.shape[0] - 1):
        for s in range(offsets[q], offsets[q + 1]):
            slot = starts[ids[s]]
            starts[ids[s]] = slot + 1
            position[slot] = s
            owner[slot] = q
    return position, owner


@kernel(parallel=False, fastmath=False)
def owners(offsets):
    """The query of each CSR slot."""
    owner = np.empty(offsets[-1], np.int32)
    for q in range(offsets.shape[0] - 1):
        owner[offsets[q] : offsets[q + 1]] = q
    return owner


def order(offsets: NDArray, ids: NDArray, n_classes: int) -> tuple[NDArray, NDArray]:
    """(position, query) of each pair in the order worth scoring them: by class where rows recur, else as they come."""
    if len(ids) < PAIRS_WORTH_SORTING or len(ids) < n_classes // 2:
        return np.arange(len(ids), dtype=np.int64), owners(offsets)
    return sort_by_class(offsets, ids, n_classes)


@kernel()
def _logits(rows, bias, queries, ids, position, owner, n_chunks, out):
    pairs = position.shape[0]
    for c in numba.prange(n_chunks):
        for slot in range(c * pairs // n_chunks, (c + 1) * pairs // n_chunks):
            i = ids[position[slot]]
            expect(rows, ids[position[min(slot + PAIRS_AHEAD, pairs - 1)]])
            out[position[slot]] = dot(rows, i, queries, owner[slot]) + bias[i if bias.shape[0] > 1 else 0]


def logits(rows: NDArray, bias: NDArray, queries: NDArray, offsets: NDArray, ids: NDArray) -> NDArray[np.float32]:
    """θ_i·x_q + b_i for every CSR pair (q, i); bias has length N, or 1 for none."""
    out = np.empty(len(ids), np.float32)
    position, owner = order(offsets, ids, len(rows))
    with threads_for(len(ids) // PAIRS_PER_THREAD) as threads:
        _logits(rows, bias, queries, ids, position, owner, CHUNKS_PER_THREAD * threads, out)
    return out
