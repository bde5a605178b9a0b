"""Random draws inside kernels: one 64-bit seed per query, so the thread count never changes an answer."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels._jit import exact_inline, kernel, threads_for
from softhash.kernels.ragged import QUERIES_PER_THREAD

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


@exact_inline
def stream(seed, counter):
    """The counter-th 64 bits of SplitMix64, which may seed a stream of their own."""
    z = seed + np.uint64(counter + 1) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@exact_inline
def uniform(seed, counter):
    """The counter-th number in [0, 1) of a stream: 53 bits of SplitMix64."""
    return np.float64(stream(seed, counter) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@exact_inline
def below(seed, counter, bound):
    """A uniform integer in [0, bound)."""
    return np.int64(uniform(seed, counter) * bound)


@exact_inline
def distinct(seed, size, n, seen, out):
    """`size` distinct integers below n (Floyd's algorithm); `seen` is all zero before and after."""
    for k in range(size):
        last = n - size + k
        i = below(seed, k, last + 1)
        if seen[i]:
            i = last
        seen[i] = 1
        out[k] = i
    for k in range(size):
        seen[out[k]] = 0


@kernel(fastmath=False)
def _without_replacement(seeds, size, n, n_chunks, out):
    for c in numba.prange(n_chunks):
        seen = np.zeros(n if size else 0, np.uint8)
        for q in range(c * seeds.shape[0] // n_chunks, (c + 1) * seeds.shape[0] // n_chunks):
            distinct(seeds[q], size, n, seen, out[q])


def without_replacement(seeds: NDArray[np.uint64], size: int, n: int) -> NDArray[np.int32]:
    """(Q, size) distinct class numbers below n for each query, every subset equally likely."""
    out = np.empty((len(seeds), size), np.int32)
    with threads_for(len(seeds) // QUERIES_PER_THREAD) as n_chunks:
        _without_replacement(seeds, size, n, n_chunks, out)
    return out


@kernel(fastmath=False)
def _systematic(seeds, running, out):
    size = out.shape[1]
    for q in numba.prange(seeds.shape[0]):
        start = uniform(seeds[q], 0)
        for k in range(size):
            point = start + k
            low = 0
            high = running.shape[0] - 1
            while low < high:
                middle = (low + high) // 2
                if running[middle] > point:
                    high = middle
                else:
                    low = middle + 1
            out[q, k] = low


def systematic(seeds: NDArray[np.uint64], running: NDArray[np.float64], size: int) -> NDArray[np.int32]:
    """(Q, size) distinct classes, i with probability running[i] − running[i − 1] ≤ 1; `running` ends at `size`."""
    out = np.empty((len(seeds), size), np.int32)
    with threads_for(len(seeds) // QUERIES_PER_THREAD):
        _systematic(seeds, running, out)
    return out


@kernel(fastmath=False)
def _with_replacement(seeds, size, n, out):
    for q in numba.prange(seeds.shape[0]):
        for k in range(size):
            out[q, k] = below(seeds[q], k, n)


def with_replacement(seeds: NDArray[np.uint64], size: int, n: int) -> NDArray[np.int32]:
    """(Q, size) independent uniform class numbers below n."""
    out = np.empty((len(seeds), size), np.int32)
    with threads_for(len(seeds) // QUERIES_PER_THREAD):
        _with_replacement(seeds, size, n, out)
    return out


@kernel(parallel=False, fastmath=False)
def _alias_table(scaled, keep, other):
    n = scaled.shape[0]
    small = np.empty(n, np.int32)
    large = np.empty(n, np.int32)
    n_small = 0
    n_large = 0
    for i in range(n):
        if scaled[i] < 1:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small and n_large:
        n_small -= 1
        low = small[n_small]
        high = large[n_large - 1]
        keep[low] = scaled[low]
        other[low] = high
        scaled[high] -= 1 - scaled[low]
        if scaled[high] < 1:
            n_large -= 1
            small[n_small] = high
            n_small += 1


def alias_table(probabilities: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Walker's alias table (Vose's construction, float64): draw i uniformly, keep it with keep[i], else other[i]."""
    keep = np.ones(len(probabilities))
    other = np.arange(len(probabilities), dtype=np.int32)
    _alias_table(probabilities * len(probabilities), keep, other)
    return keep, other


@kernel(fastmath=False)
def _from_alias(seeds, keep, other, out):
    for q in numba.prange(seeds.shape[0]):
        for k in range(out.shape[1]):
            i = below(seeds[q], 2 * k, keep.shape[0])
            out[q, k] = i if uniform(seeds[q], 2 * k + 1) < keep[i] else other[i]


def from_alias(seeds: NDArray[np.uint64], size: int, keep: NDArray, other: NDArray) -> NDArray[np.int32]:
    """(Q, size) independent draws from an alias table."""
    out = np.empty((len(seeds), size), np.int32)
    with threads_for(len(seeds) // QUERIES_PER_THREAD):
        _from_alias(seeds, keep, other, out)
    return out
