"""Reading sketches: queries cut into integers, a first look at leading coordinates, a second at sign bits."""

from __future__ import annotations

import numpy as np

from softhash.kernels import systematic
from softhash.kernels._bits import PLANES, differences, lowest, prefetch
from softhash.kernels._jit import exact_inline, inline
from softhash.kernels._tile import (
    FIRST_FUZZ,
    GAUSSIAN_REACH,
    TILE,
    above_in,
    look_of_four,
    look_of_one,
)
from softhash.kernels.encode import NOTHING

GROUP = 4
QUERY_STEPS = np.float32(2047)
SIGN_GAIN = np.float32(0.75)
SIGN_FUZZ = np.float32(0.2)
SPREAD_SHARE = np.float32(0.5)
DEVIATION_OF_SCALE = np.float32(np.sqrt(2 / np.pi))
CODES_AHEAD = 12
OPENED = np.float32(-2e30)
"""Block mass of a cluster whose members were looked at one by one."""


@inline
def gain(share, deviation):
    """What an unread term of this deviation σ adds to a log weight: share·σ², linear beyond what N Gaussians reach."""
    return share * deviation * min(deviation, GAUSSIAN_REACH)


@exact_inline
def quantise_leading(projected, q, x, slot):
    """A query's leading coordinates as int16 to x[slot]; returns their unit and norm."""
    top = np.float32(0)
    squares = np.float32(0)
    for k in range(x.shape[1]):
        top = max(top, abs(projected[q, k]))
        squares += projected[q, k] * projected[q, k]
    unit = top / QUERY_STEPS
    for k in range(x.shape[1]):
        x[slot, k] = np.int16(round(projected[q, k] / unit)) if unit > 0 else 0
    return unit, np.sqrt(squares)


@exact_inline
def slice_rest(projected, q, rank, query_bits, clip, planes):
    """The other coordinates quantised to `query_bits` and spread over bit planes.

    A coordinate becomes Σ_b ±2^b · half_step. Returns (half_step, √(2/π)·‖rest‖).
    """
    width = projected.shape[1] - rank
    if width == 0:
        return np.float32(0), np.float32(0)
    top = np.float32(0)
    squares = np.float32(0)
    for k in range(rank, rank + width):
        top = max(top, abs(projected[q, k]))
        squares += projected[q, k] * projected[q, k]
    top = min(top, clip * np.sqrt(squares / np.float32(width)))
    levels = 1 << query_bits
    inverse = np.float32(levels - 1) / (2 * top) if top > 0 else np.float32(0)
    for w in range(width // 64):
        a = np.uint64(0)
        b = np.uint64(0)
        c = np.uint64(0)
        d = np.uint64(0)
        for k in range(64):
            level = int(np.floor((projected[q, rank + 64 * w + k] + top) * inverse + np.float32(0.5)))
            level = np.uint64(min(max(level, 0), levels - 1) << (PLANES - query_bits))
            bit = np.uint64(k)
            one = np.uint64(1)
            a |= (level & one) << bit
            b |= ((level >> one) & one) << bit
            c |= ((level >> np.uint64(2)) & one) << bit
            d |= ((level >> np.uint64(3)) & one) << bit
        planes[0, w], planes[1, w], planes[2, w], planes[3, w] = a, b, c, d
    return top / np.float32((levels - 1) << (PLANES - query_bits)), DEVIATION_OF_SCALE * np.sqrt(squares)


@exact_inline
def promising_of(row, n, runs, threshold, at, place):
    """Classes whose first look exceeds the threshold, by their position and where their codes are; how many."""
    run_place, run_start = runs
    count = 0
    run = 0
    for b in range((n + TILE - 1) // TILE):
        above = above_in(row, TILE * b, threshold)
        if TILE * (b + 1) > n:
            above &= (np.uint64(1) << np.uint64(n - TILE * b)) - np.uint64(1)
        while above:
            i = TILE * b + lowest(above)
            above &= above - np.uint64(1)
            while run_start[run + 1] <= i:
                run += 1
            at[count] = i
            place[count] = run_place[run] + i - run_start[run]
            count += 1
    return count


@exact_inline
def second_look(row, at, place, count, threshold, half_step, rest, bits, scale, planes, slot):
    """Add to each promising first look what the signs say; returns the largest, and no less than the threshold.

    `place` is CODES_AHEAD longer than what is found; `scale` has no tiles.
    """
    most = np.float32(threshold)
    middle = np.int64(15 * 64 * bits.shape[1])
    for k in range(count):
        prefetch(bits, place[k + CODES_AHEAD], 0)
        s = scale[place[k]]
        signed = middle - 2 * np.int64(differences(bits, place[k], planes, slot))
        value = row[at[k]] + SIGN_GAIN * s * (np.float32(signed) * half_step) + gain(SIGN_FUZZ - FIRST_FUZZ, rest * s)
        row[at[k]] = value
        most = value if value > most else most
    return most


@inline
def guess_masses(masses, q, norm, rest, spread, fuzz, out):
    """Log mass of each cluster, from its centroid's score and what varies around it."""
    for c in range(out.shape[0]):
        out[c] = masses[q, c] + gain(SPREAD_SHARE, spread[c] * norm) + gain(FIRST_FUZZ, fuzz[c] * rest)


@exact_inline
def open_clusters(block_mass, starts, probes, runs, capacity, spare):
    """Make runs of the heaviest clusters, and nothing of their block mass. Returns the number of classes in them."""
    run_place, run_start = runs
    n_clusters = starts.shape[0] - 1
    threshold = systematic.threshold_for(block_mass, n_clusters, probes, spare)
    n = 0
    run = 0
    for c in range(n_clusters):
        size = starts[c + 1] - starts[c]
        if block_mass[c] > threshold and n + size <= capacity and size > 0 and run < run_place.shape[0]:
            run_place[run] = starts[c]
            run_start[run] = n
            block_mass[c] = OPENED
            n += size
            run += 1
    run_start[run] = n
    return n


@exact_inline
def look_everywhere(codes, x, count, unit, rest, values):
    """First look of `count` queries at every class, four queries at a time where there are four."""
    for tile in range(values.shape[1]):
        if count == GROUP:
            look_of_four(codes, tile, x, 0, unit, rest, values, 0, tile)
        else:
            for slot in range(count):
                look_of_one(codes, tile, x, slot, unit, rest, values, slot, tile)


@exact_inline
def look_at(runs, n, codes, x, slot, unit, rest, row, one_tile):
    """First look of one query at the n classes in its runs."""
    run_place, run_start = runs
    run = 0
    while run_start[run] < n:
        place = run_place[run]
        at = run_start[run]
        while at < run_start[run + 1]:
            tile = place // TILE
            first = place % TILE
            length = min(TILE - first, run_start[run + 1] - at)
            look_of_one(codes, tile, x, slot, unit, rest, one_tile, 0, 0)
            for j in range(length):
                row[at + j] = one_tile[0, 0, first + j]
            at += length
            place += length
        run += 1


@exact_inline
def pad(row, n):
    """Nothing from n to the end of its tile."""
    for i in range(n, -(-n // TILE) * TILE):
        row[i] = NOTHING
