"""A head of classes that count with certainty, and a tail drawn from the others."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import ragged
from softhash.kernels._jit import exact_inline, kernel, threads_for
from softhash.kernels.draws import below, distinct, uniform

MOST_TRIES = 16
"""Draws from a prior per class wanted, at most: nearly all of them may fall into the head."""


@exact_inline
def tidy(found, q, n_classes, head, sorted_head):
    """The distinct valid classes among found[q] in rising order, into head[q]; how many."""
    width = found.shape[1]
    for k in range(width):
        sorted_head[k] = found[q, k]
    sorted_head.sort()
    count = 0
    for k in range(width):
        i = sorted_head[k]
        if 0 <= i < n_classes and (count == 0 or head[q, count - 1] != i):
            head[q, count] = i
            count += 1
    return count


@exact_inline
def skipped(head, q, count, rank):
    """The class at `rank` among those outside the first `count` of head[q], which are sorted."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if head[q, middle] - middle <= rank:
            low = middle + 1
        else:
            high = middle
    return rank + low


@exact_inline
def within(head, q, count, i):
    """Whether class i is among the first `count` of head[q], which are sorted."""
    rank = np.searchsorted(head[q, :count], i)
    return rank < count and head[q, rank] == i


@kernel(fastmath=False)
def _even_tail(found, seeds, n_classes, tail, n_chunks, ids, log_count, heads, sizes):
    for c in numba.prange(n_chunks):
        seen = np.zeros(n_classes, np.uint8)
        spare = np.empty(found.shape[1], np.int64)
        for q in range(c * seeds.shape[0] // n_chunks, (c + 1) * seeds.shape[0] // n_chunks):
            count = tidy(found, q, n_classes, ids, spare)
            others = n_classes - count
            drawn = min(tail, others)
            distinct(seeds[q], drawn, others, seen, ids[q, count:])
            for k in range(count, count + drawn):
                ids[q, k] = skipped(ids, q, count, ids[q, k])
                log_count[q, k] = np.log(drawn / others)
            log_count[q, :count] = 0
            heads[q] = count
            sizes[q] = count + drawn


@kernel(fastmath=False)
def _prior_tail(found, seeds, tail, log_q, keep, other, n_chunks, ids, log_count, heads, sizes, draws):
    n_classes = log_q.shape[0]
    for c in numba.prange(n_chunks):
        spare = np.empty(found.shape[1], np.int64)
        for q in range(c * seeds.shape[0] // n_chunks, (c + 1) * seeds.shape[0] // n_chunks):
            count = tidy(found, q, n_classes, ids, spare)
            share = 1.0
            for k in range(count):
                share -= np.exp(np.float64(log_q[ids[q, k]]))
            draws[q] = int(np.ceil(tail / max(share, 1 / MOST_TRIES))) if count < n_classes else 0
            size = count
            for k in range(draws[q]):
                i = below(seeds[q], 2 * k, n_classes)
                i = i if uniform(seeds[q], 2 * k + 1) < keep[i] else other[i]
                if not within(ids, q, count, i):
                    ids[q, size] = i
                    log_count[q, size] = np.float64(log_q[i]) + np.log(draws[q])
                    size += 1
            log_count[q, :count] = 0
            heads[q] = count
            sizes[q] = size


def draw(
    found: NDArray, seeds: NDArray, n_classes: int, tail: int, prior: tuple[NDArray, NDArray, NDArray] | None
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Every class found, once, and about `tail` of the others.

    Args:
        found: int64[Q, k] classes, in any order, repeated or −1 as the case may be.
        seeds: uint64[Q].
        prior: None for a tail drawn evenly, without replacement; or (log_q, keep, other), a distribution and its alias
            table, for one drawn with replacement. So many draws are made that `tail` are expected outside the head
            (at most 16·tail); the number depends on the head alone.

    Returns:
        offsets, ids (a query's head first, sorted), log_count, the size of each head, and the number of draws each tail
        is made of (those that fell into the head included).
    """
    n_queries, width = found.shape
    room = tail if prior is None else MOST_TRIES * tail
    ids = np.empty((n_queries, width + room), np.int32)
    log_count = np.empty(ids.shape, np.float32)
    heads, sizes = np.empty(n_queries, np.int64), np.empty(n_queries, np.int64)
    with threads_for(n_queries // ragged.QUERIES_PER_THREAD) as n_chunks:
        if prior is None:
            _even_tail(found, seeds, n_classes, tail, n_chunks, ids, log_count, heads, sizes)
            draws = sizes - heads
        else:
            draws = np.empty(n_queries, np.int64)
            _prior_tail(found, seeds, tail, *prior, n_chunks, ids, log_count, heads, sizes, draws)
    offsets, loose = ragged.offsets_from_sizes(sizes), np.arange(n_queries, dtype=np.int64) * ids.shape[1]
    ids, log_count = (ragged.compact(loose, offsets, array.ravel()) for array in (ids, log_count))
    return offsets, ids, log_count, heads, draws


@kernel(fastmath=False)
def _tail_error(offsets, logits, log_count, heads, draws, log_z, n_classes, replace, out):
    for q in numba.prange(log_z.shape[0]):
        total = 0.0
        squares = 0.0
        for s in range(offsets[q] + heads[q], offsets[q + 1]):
            weight = np.exp(np.float64(logits[s]) - np.float64(log_count[s]) - log_z[q])
            total += weight
            squares += weight * weight
        n = draws[q]
        others = n_classes - heads[q]
        left = 1.0 if replace else 1 - n / max(others, 1)
        if left <= 0 or others == 0:
            out[q] = 0
        elif n < 2:
            out[q] = np.nan
        else:
            out[q] = np.sqrt(max(left * n / (n - 1) * (squares - total * total / n), 0.0))


def tail_error(offsets, logits, log_count, heads, draws, log_z, n_classes: int, replace: bool) -> NDArray[np.float64]:
    """Relative standard error of Ẑ: that of the tail's sum of n exchangeable draws, the head having none.

    √(f · n/(n − 1) · (Σw² − (Σw)²/n)) with w the tail's weights over Ẑ and f = 1 − n/(classes outside the head), or 1
    with replacement.
    """
    out = np.empty(len(log_z))
    with threads_for(len(out) // ragged.QUERIES_PER_THREAD):
        _tail_error(offsets, logits, log_count, heads, draws, log_z, n_classes, replace, out)
    return out
