"""Gradients of the logits of drawn pairs, each class row read and written once per batch.

For pairs s = (query q, class i) with gradient g_s:  ∂/∂θ_i += g_s x_q  and  ∂/∂x_q += g_s θ_i.

Pairs are taken in class order, in a fixed number of shares that each sum into a ∂/∂x of their own: nothing is written
by two threads, and how many there are never changes an answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import exact_inline, inline, kernel, threads_for
from softhash.kernels.score import PAIRS_PER_THREAD, expect, sort_by_class

SHARES = 8
MOST_PARTIAL_SUMS = 2**25
"""Numbers in all the shares' ∂/∂x together; more queries make fewer shares."""


class Gradients(NamedTuple):
    """What `gradients` gives.

    Attributes:
        queries: (Q, d), ∂/∂x.
        classes: int32, the classes that occur, ascending.
        rows, bias: ∂/∂θ and ∂/∂b: of the classes that occur, or of all N.
    """

    queries: NDArray[np.float32]
    classes: NDArray[np.int32]
    rows: NDArray[np.float32]
    bias: NDArray[np.float32]


@inline
def add_scaled(target, at, scale, source, row):
    """target[at] += scale · source[row]."""
    for k in range(source.shape[1]):
        target[at, k] += scale * source[row, k]


@exact_inline
def fill_with_zeros(rows, bias, first, stop):
    """Rows of classes that do not occur."""
    for i in range(first, stop):
        rows[i] = 0
        bias[i] = 0


@kernel(fastmath=False)
def _gradients(gradient, position, owner, starts, classes, shares, queries, weights, dense, partial, rows, bias):
    n_shares = shares.shape[0] - 1
    for share in numba.prange(n_shares):
        target = partial[share]
        target[:] = 0
        before = np.int64(classes[shares[share] - 1]) + 1 if shares[share] > 0 else np.int64(0)
        for k in range(shares[share], shares[share + 1]):
            i = np.int64(classes[k])
            expect(weights, classes[min(k + 1, classes.shape[0] - 1)])
            at = i if dense else k
            fill_with_zeros(rows, bias, before if dense else at, at + 1)
            before = at + 1
            for slot in range(starts[k], starts[k + 1]):
                g = gradient[position[slot]]
                add_scaled(rows, at, g, queries, owner[slot])
                add_scaled(target, owner[slot], g, weights, i)
                bias[at] += g
        if share == n_shares - 1:
            fill_with_zeros(rows, bias, before, rows.shape[0])


def gradients(
    gradient: NDArray[np.float32], queries: NDArray[np.float32], weights: NDArray[np.float32], offsets: NDArray,
    ids: NDArray[np.int32], every: NDArray[np.float32] | None = None,
) -> Gradients:  # fmt: skip
    """The gradients of the logits of CSR pairs.

    Args:
        gradient: (M,), of the logits.
        queries: (Q, d).
        weights: (N, d).
        offsets: int64 (Q + 1,).
        ids: (M,).
        every: (N, d) to write ∂/∂θ of all classes to; None: of those that occur, to new memory.
    """
    position, owner = sort_by_class(offsets, ids, len(weights))
    ordered = ids[position]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    classes, starts = ordered[first], np.append(first, len(ids))
    rows = np.empty((len(classes), queries.shape[1]), np.float32) if every is None else every
    bias = np.empty(len(rows), np.float32)
    n_shares = max(1, min(SHARES, MOST_PARTIAL_SUMS // max(queries.size, 1)))
    shares = np.searchsorted(starts, np.linspace(0, len(ids), n_shares + 1).astype(np.int64))
    partial = np.empty((n_shares, *queries.shape), np.float32)
    with threads_for(len(ids) // PAIRS_PER_THREAD):
        _gradients(
            gradient, position, owner, starts, classes, shares, queries, weights, every is not None, partial, rows, bias
        )
    return Gradients(partial.sum(0), classes, rows, bias)
