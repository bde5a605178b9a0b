"""Writing sketches: codes of classes, and summaries of clusters of them."""

from __future__ import annotations

import numba
import numpy as np

from softhash.kernels._jit import kernel
from softhash.kernels._tile import PAIR, TILE

NOTHING = np.float32(-1e30)
"""The log of no mass; finite, because kernels assume finite numbers."""


@kernel(parallel=False, fastmath=False)
def encode(projected, places, block_prior, prior, leading, leading_scale, bits, scale):
    """Store rows of balanced, rotated coordinates as codes."""
    rank = PAIR * leading.shape[1]
    for row in range(places.shape[0]):
        i = places[row]
        top = np.float32(0)
        for k in range(rank):
            top = max(top, abs(projected[row, k]))
        unit = top / np.float32(127)
        for k in range(rank):
            leading[i // TILE, k // PAIR, i % TILE, k % PAIR] = (
                np.int8(round(projected[row, k] / unit)) if unit > 0 else 0
            )
        squares = 0.0
        absolutes = 0.0
        for w in range(bits.shape[1]):
            word = np.uint64(0)
            for b in range(64):
                value = projected[row, rank + 64 * w + b]
                squares += np.float64(value) * value
                absolutes += abs(value)
                word |= np.uint64(value > 0) << np.uint64(b)
            bits[i, w] = word
        prior[i // TILE, i % TILE] = block_prior[row]
        leading_scale[i // TILE, i % TILE] = unit
        scale[i // TILE, i % TILE] = squares / absolutes if absolutes > 0 else 0


@kernel(fastmath=False)
def describe(starts, prior, leading, leading_scale, scale, centroid, log_mass, spread, fuzz, share):
    """Summaries of clusters, members weighted by exp(prior)."""
    rank = PAIR * leading.shape[1]
    for c in numba.prange(starts.shape[0] - 1):
        start = starts[c]
        stop = starts[c + 1]
        top = NOTHING
        for i in range(start, stop):
            top = max(top, prior[i // TILE, i % TILE])
        total = 0.0
        fuzzy = 0.0
        for i in range(start, stop):
            weight = np.exp(np.float64(prior[i // TILE, i % TILE]) - top)
            total += weight
            fuzzy += weight * np.float64(scale[i // TILE, i % TILE]) ** 2
            for k in range(rank):
                centroid[c, k] += (
                    weight * leading_scale[i // TILE, i % TILE] * leading[i // TILE, k // PAIR, i % TILE, k % PAIR]
                )
        running = 0.0
        squares = 0.0
        for i in range(start, stop):
            weight = np.exp(np.float64(prior[i // TILE, i % TILE]) - top)
            running += weight
            share[i] = running / total
            for k in range(rank):
                value = (
                    leading_scale[i // TILE, i % TILE] * leading[i // TILE, k // PAIR, i % TILE, k % PAIR]
                    - centroid[c, k] / total
                )
                squares += weight * value * value
        if stop > start:
            share[stop - 1] = 1
            for k in range(rank):
                centroid[c, k] /= total
            log_mass[c] = top + np.log(total)
            spread[c] = np.sqrt(squares / total / max(rank, 1))
            fuzz[c] = np.sqrt(fuzzy / total)
        else:
            log_mass[c] = NOTHING
