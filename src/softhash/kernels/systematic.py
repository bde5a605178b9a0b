"""Draws in proportion to size: p_i = min(1, w_i/τ) with Σp the wanted size, taken where a running sum meets points."""

from __future__ import annotations

import numpy as np

from softhash.kernels._bits import as_float
from softhash.kernels._jit import exact_inline, inline
from softhash.kernels.draws import uniform

BLOCK = 64
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
def largest(values, n, lanes):
    """max of values[:n], n ≥ 1, through 64 running maxima, which vectorise where a single one does not."""
    top = values[0]
    whole = n // BLOCK
    for j in range(BLOCK):
        lanes[j] = top
    for b in range(whole):
        for j in range(BLOCK):
            value = values[b * BLOCK + j]
            lanes[j] = value if value > lanes[j] else lanes[j]
    for j in range(BLOCK):
        top = max(top, lanes[j])
    for i in range(whole * BLOCK, n):
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
def threshold_for(values, n, wanted, top, spare):
    """A threshold that about `wanted` of values[:n] exceed, from every 8th of them where they are many."""
    if wanted >= n:
        return np.float32(-3e38)
    stride = 8 if wanted > 512 else 1
    seen = (n + stride - 1) // stride
    for i in range(seen):
        spare[i] = values[i * stride]
    low = np.float32(top - 64)
    high = np.float32(top)
    for _ in range(14):
        middle = (low + high) / 2
        if count_above(spare, seen, middle) * stride > wanted:
            low = middle
        else:
            high = middle
    return high


@inline
def exponentiate(values, n, top):
    """exp(values − top) in place; their sum."""
    total = np.float32(0)
    for i in range(n):
        values[i] = fast_exp(values[i] - top)
        total += values[i]
    return np.float64(total)


@inline
def add_constant(values, n, constant):
    for i in range(n):
        values[i] += constant


@inline
def above_and_count(values, n, threshold):
    """Sum and number of values[:n] that reach the threshold."""
    total = np.float32(0)
    count = np.int32(0)
    for i in range(n):
        over = values[i] >= threshold
        total += values[i] if over else np.float32(0)
        count += np.int32(over)
    return np.float64(total), count


@exact_inline
def solve_tau(weights, n, total, size):
    """τ with Σ min(1, w/τ) = size, where `total` is Σ weights[:n] and any uncapped mass besides."""
    tau = total / size
    for _ in range(40):
        heavy, count = above_and_count(weights, n, np.float32(tau))
        if count >= size:
            return tau
        smaller = (total - heavy) / (size - count)
        if not 0 < smaller < tau * (1 - 1e-6):
            return tau
        tau = smaller
    return tau


@inline
def tail_and_certain(blocks, b, inverse_tau):
    """Over a block of 64: Σ w/τ where that is below 1, and how many reach 1."""
    total = np.float32(0)
    certain = np.int32(0)
    for i in range(BLOCK):
        p = blocks[b, i] * inverse_tau
        total += p if p < np.float32(1) else np.float32(0)
        certain += np.int32(p >= np.float32(1))
    return np.float64(total), certain


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
