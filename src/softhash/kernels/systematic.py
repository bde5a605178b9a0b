"""Draws in proportion to size: p_i = min(1, w_i/τ) with Σp the wanted size, taken where a running sum meets points."""

from __future__ import annotations

import numpy as np

from softhash.kernels._bits import as_float, lowest
from softhash.kernels._jit import exact_inline, inline
from softhash.kernels._tile import TILE, above_in, largest_in
from softhash.kernels.draws import uniform

SEEN_OF_TILE = 4
MANY = 16_384
LOG2E = np.float32(1.4426950408889634)
LEAST_EXPONENT = np.float32(-126)


@inline
def fast_exp(x):
    """exp(x) in float32 for x ≤ 0, to 1e-6, in operations that vectorise; at least 1e-38."""
    e = max(x * LOG2E, LEAST_EXPONENT)
    whole = np.floor(e)
    f = e - whole
    p = np.float32(0.0018775767) * f + np.float32(0.0089893397)
    p = p * f + np.float32(0.0558263180)
    p = p * f + np.float32(0.2401536)
    p = p * f + np.float32(0.6931530732)
    p = p * f + np.float32(0.9999999)
    return p * as_float((np.int32(whole) + np.int32(127)) << np.int32(23))


@inline
def largest(values, n):
    """max of values[:n], n ≥ 1."""
    top = values[0]
    whole = n // TILE * TILE
    for start in range(0, whole, TILE):
        top = max(top, largest_in(values, start))
    for i in range(whole, n):
        top = max(top, values[i])
    return top


@inline
def count_above(values, n, threshold):
    """How many of values[:n] exceed the threshold."""
    count = np.int32(0)
    for i in range(n):
        count += np.int32(values[i] > threshold)
    return count


@exact_inline
def threshold_for(values, n, wanted, spare):
    """A threshold that about `wanted` of values[:n] exceed, from 4 of every 64 where they are many."""
    if wanted >= n:
        return np.float32(-3e38)
    seen = n
    if n >= MANY:
        seen = n // TILE * SEEN_OF_TILE
        for b in range(n // TILE):
            for j in range(SEEN_OF_TILE):
                spare[SEEN_OF_TILE * b + j] = values[TILE * b + j]
        wanted = wanted * seen // n
    else:
        spare[:n] = values[:n]
    high = largest(spare, seen)
    low = high - np.float32(64)
    for _ in range(14):
        middle = (low + high) / 2
        if count_above(spare, seen, middle) > wanted:
            low = middle
        else:
            high = middle
    return high


@inline
def relative_weights(logits, log_count, start, stop, out):
    """exp(logits − log_count) of the slots start:stop in float32, the largest of them 1."""
    for k in range(stop - start):
        out[k] = logits[start + k] - log_count[start + k]
    top = largest(out, stop - start) if stop > start else np.float32(0)
    for k in range(stop - start):
        out[k] = fast_exp(out[k] - top)


@inline
def probabilities(log_p, start, stop, out):
    """exp(log_p) of the slots start:stop in float32."""
    for k in range(stop - start):
        out[k] = fast_exp(np.float32(log_p[start + k]))


@inline
def sum_of(values, first, last):
    """Σ values[first:last]."""
    total = 0.0
    for i in range(first, last):
        total += values[i]
    return total


@inline
def sum_and_largest(values, first, count):
    """Σ and max of values[first : first + count], none of them negative."""
    total = np.float32(0)
    top = np.float32(0)
    for i in range(count):
        value = values[first + i]
        total += value
        top = value if value > top else top
    return total, top


@inline
def exponentiate(values, n, top):
    """exp(values − top) in place; their sum."""
    total = np.float32(0)
    for i in range(n):
        values[i] = fast_exp(values[i] - top)
        total += values[i]
    return np.float64(total)


@inline
def exponentiate_tile(blocks, b, top):
    """exp(values − top) of one tile in place; their sum."""
    total = np.float32(0)
    for j in range(TILE):
        blocks[b, j] = fast_exp(blocks[b, j] - top)
        total += blocks[b, j]
    return total


@exact_inline
def exponentiate_tiles(blocks, row, n, top, sums, tops):
    """exp(values − top) of the tiles that hold n classes, in place; the sum and the largest of each; the sum of all.

    `row` is `blocks` without tiles.
    """
    total = 0.0
    for b in range((n + TILE - 1) // TILE):
        sums[b] = exponentiate_tile(blocks, b, top)
        tops[b] = largest_in(row, TILE * b)
        total += np.float64(sums[b])
    return total


@exact_inline
def scale_by_spread(masses, sums, tops, n):
    """Multiply masses by the mean of sum/top over the tiles that hold n classes; returns that mean."""
    n_tiles = (n + TILE - 1) // TILE
    ratio = 0.0
    for b in range(n_tiles):
        ratio += np.float64(sums[b]) / np.float64(tops[b])
    ratio = ratio / n_tiles if n_tiles else 1.0
    for c in range(masses.shape[0]):
        masses[c] *= np.float32(ratio)
    return ratio


@exact_inline
def above_and_count(weights, n, tops, threshold):
    """Sum and number of the weights that exceed the threshold, in the tiles that hold n classes."""
    total = 0.0
    count = 0
    for b in range((n + TILE - 1) // TILE):
        if tops[b] > threshold:
            above = above_in(weights, TILE * b, threshold)
            while above:
                total += np.float64(weights[TILE * b + lowest(above)])
                above &= above - np.uint64(1)
                count += 1
    return total, count


@exact_inline
def solve_tau(weights, n, tops, floor, total, size):
    """τ with Σ min(1, (w + floor)/τ) = size over n classes; `total` is their Σ w + floor and any uncapped mass."""
    tau = total / size
    for _ in range(40):
        heavy, count = above_and_count(weights, n, tops, np.float32(tau - floor))
        if count >= size:
            return tau
        smaller = (total - heavy - count * floor) / (size - count)
        if not 0 < smaller < tau * (1 - 1e-6):
            return tau
        tau = smaller
    return tau


@exact_inline
def next_point(points, j, seed, poisson, before):
    """The j-th point the running sum is to meet: evenly spaced from each replicate's offset, or a Poisson process."""
    n = points.shape[0]
    if poisson:
        return before - np.log1p(-uniform(seed, n + j))
    return points[j % n] + n * (j // n)


@exact_inline
def draw_points(points, seed):
    """One sorted uniform offset in [0, R) for each of R replicates."""
    n = points.shape[0]
    for r in range(n):
        points[r] = n * uniform(seed, r)
    points.sort()
