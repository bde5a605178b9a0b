"""The largest entries of a row, by way of a threshold that a strided sample of the row suggests.

The threshold decides how much is left to look at, never what comes out, so a sample is good enough for it.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import exact_inline, inline, kernel, threads_for

BLOCK = 64
RANK = 16
SAMPLE_ROOM = 2 * RANK


@inline
def largest(rows, q, start, stop):
    """The largest of rows[q, start:stop], without a branch for each."""
    top = rows[q, start]
    for i in range(start + 1, stop):
        top = max(top, rows[q, i])
    return top


@exact_inline
def threshold(rows, q, wanted, sample):
    """A number that about `wanted` entries of rows[q] exceed; -inf where all do. `sample` is room to work in."""
    step = max(1, wanted // RANK)
    rank = wanted // step
    for k in range(rank):
        sample[k] = -np.inf
    for i in range(0, rows.shape[1], step):
        value = rows[q, i]
        if value > sample[0]:
            k = 1
            while k < rank and sample[k] < value:
                sample[k - 1] = sample[k]
                k += 1
            sample[k - 1] = value
    return sample[0]


@exact_inline
def above(rows, q, cut, places):
    """Write where rows[q] exceeds `cut`, in order; returns how often it does."""
    count = 0
    for start in range(0, rows.shape[1], BLOCK):
        stop = min(start + BLOCK, rows.shape[1])
        if largest(rows, q, start, stop) > cut:
            for i in range(start, stop):
                if rows[q, i] > cut:
                    places[count] = i
                    count += 1
    return count


@kernel(fastmath=False)
def _top_sums(rows, added, count, n_chunks, top_rows, top_sums):
    n = rows.shape[1]
    for c in numba.prange(n_chunks):
        sums = np.empty((1, n), np.float32)
        places = np.empty(n, np.int32)
        sample = np.empty(SAMPLE_ROOM, np.float32)
        for q in range(c * rows.shape[0] // n_chunks, (c + 1) * rows.shape[0] // n_chunks):
            for i in range(n):
                sums[0, i] = rows[q, i] + added[i]
            wanted = 2 * count
            found = 0
            while found < count:
                found = above(sums, 0, threshold(sums, 0, wanted, sample), places)
                wanted *= 4
            order = np.argsort(-sums[0, places[:found]])
            for k in range(count):
                i = places[order[k]]
                top_rows[q, k] = rows[q, i]
                top_sums[q, k] = sums[0, i]


def top_sums(rows: NDArray, added: NDArray, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The `count` largest entries of rows + added in each row, the largest first, and the entries of `rows` there.

    Args:
        rows: float32[Q, N].
        added: float32[N].
        count: at most N.

    Returns:
        (entries of rows, sums), each float32[Q, count].
    """
    top_rows, sums = np.empty((len(rows), count), np.float32), np.empty((len(rows), count), np.float32)
    with threads_for(len(rows)) as n_chunks:
        _top_sums(rows, added, count, n_chunks, top_rows, sums)
    return top_rows, sums
