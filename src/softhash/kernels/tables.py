"""Hash tables in CSR form: pack sign bits into codes, sort classes into buckets, unite a query's buckets."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import ragged
from softhash.kernels._jit import exact_inline, kernel, threads_for
from softhash.kernels.draws import GOLDEN, below

SHARED = -1
FROM_FLOOR = -2


@kernel(parallel=False, fastmath=False)
def pack(projections, bits, codes):
    """codes[t, row] = Σ_j 2^j [projections[row, t·bits + j] > 0]."""
    for row in range(projections.shape[0]):
        for t in range(codes.shape[0]):
            code = np.uint32(0)
            for j in range(bits):
                code |= np.uint32(projections[row, t * bits + j] > 0) << np.uint32(j)
            codes[t, row] = code


@kernel(fastmath=False)
def _counting_sort(codes, starts, ids):
    for t in numba.prange(codes.shape[0]):
        for i in range(codes.shape[1]):
            starts[t, codes[t, i] + 1] += 1
        for b in range(starts.shape[1] - 1):
            starts[t, b + 1] += starts[t, b]
        for i in range(codes.shape[1]):
            slot = starts[t, codes[t, i]]
            starts[t, codes[t, i]] = slot + 1
            ids[t, slot] = i
        for b in range(starts.shape[1] - 1, 0, -1):
            starts[t, b] = starts[t, b - 1]
        starts[t, 0] = 0


def counting_sort(codes: NDArray[np.uint32], n_buckets: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """starts (L, n_buckets + 1) and ids (L, N): bucket b of table t is ids[t, starts[t, b]:starts[t, b + 1]]."""
    starts = np.zeros((len(codes), n_buckets + 1), np.int32)
    ids = np.empty(codes.shape, np.int32)
    _counting_sort(codes, starts, ids)
    return starts, ids


@kernel(fastmath=False)
def _codes_of_buckets(starts, ids, codes):
    for t in numba.prange(ids.shape[0]):
        for b in range(starts.shape[1] - 1):
            for slot in range(starts[t, b], starts[t, b + 1]):
                codes[t, ids[t, slot]] = b


def codes_of_buckets(starts: NDArray, ids: NDArray) -> NDArray[np.uint32]:
    """The codes (L, N) that `counting_sort` sorted."""
    codes = np.empty(ids.shape, np.uint32)
    _codes_of_buckets(starts, ids, codes)
    return codes


@exact_inline
def slot_of(i, slots, mask, out, base):
    """Where class i stands in a table of positions in out[base:] plus 1, or the empty slot it would take.

    A few thousand slots stay in the cache, where a mark for every class would not.
    """
    at = np.int64((np.uint64(i) * GOLDEN) >> np.uint64(32)) & mask
    while slots[at] and out[base + slots[at] - 1] != i:
        at = (at + 1) & mask
    return at


@kernel(fastmath=False)
def _unite(first, last, ids, seeds, extra, size, loose, n_slots, n_chunks, out, sole, found, kept):
    n_queries, n_tables = first.shape
    for c in numba.prange(n_chunks):
        slots = np.empty(n_slots, np.int32)
        for q in range(c * n_queries // n_chunks, (c + 1) * n_queries // n_chunks):
            base = loose[q]
            count = 0
            slots[:] = 0
            for t in range(n_tables):
                for place in range(first[q, t], last[q, t]):
                    i = ids[t, place]
                    at = slot_of(i, slots, n_slots - 1, out, base)
                    if slots[at]:
                        sole[base + slots[at] - 1] = SHARED
                        continue
                    out[base + count] = i
                    sole[base + count] = t
                    count += 1
                    slots[at] = count
            for i in extra[q]:
                at = slot_of(i, slots, n_slots - 1, out, base)
                if not slots[at]:
                    out[base + count] = i
                    sole[base + count] = FROM_FLOOR
                    count += 1
                    slots[at] = count
            found[q] = count
            kept[q] = min(count, size)
            if count > size:
                for k in range(size):
                    other = k + below(seeds[q], extra.shape[1] + k, count - k)
                    out[base + k], out[base + other] = out[base + other], out[base + k]
                    sole[base + k], sole[base + other] = sole[base + other], sole[base + k]


def unite(first: NDArray, last: NDArray, ids: NDArray, seeds: NDArray, extra: NDArray, size: int):
    """The union of a query's buckets, joined by its `extra` classes, then cut to `size` at random.

    Args:
        first, last: int[Q, L], the buckets of query q: ids[t, first[q, t]:last[q, t]].
        ids: int32[L, N].
        seeds: uint64[Q].
        extra: int32[Q, floor], classes drawn otherwise, distinct within a query.

    Returns:
        offsets, ids of the union, `sole` (the only table that holds the class, SHARED if several do, FROM_FLOOR if
        none), and how many classes each query found before the cut.
    """
    capacity = np.minimum((last - first).sum(axis=1, dtype=np.int64) + extra.shape[1], ids.shape[1])
    loose = ragged.offsets_from_sizes(capacity)
    out, sole = np.empty(loose[-1], np.int32), np.empty(loose[-1], np.int16)
    found, kept = np.empty(len(seeds), np.int64), np.empty(len(seeds), np.int64)
    n_slots = 2 << int(capacity.max(initial=1)).bit_length()
    with threads_for(len(seeds) // ragged.QUERIES_PER_THREAD) as n_chunks:
        _unite(first, last, ids, seeds, extra, size, loose, n_slots, n_chunks, out, sole, found, kept)
    offsets = ragged.offsets_from_sizes(kept)
    return offsets, ragged.compact(loose, offsets, out), ragged.compact(loose, offsets, sole), found
